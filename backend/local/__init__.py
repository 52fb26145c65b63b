"""llama.cpp in a child process: the only place where a model is loaded and run."""
