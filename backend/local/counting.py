"""What a conversation would cost if it were sent now; nothing is computed for it."""

from collections.abc import Callable

from backend.chat.templates import ChatTemplateError
from backend.local.llama import LlamaError
from backend.local.loading import LoadedModel
from backend.protocol import CountRequest, Event, PromptCounted, TemplateRuns


def count_prompt(
    request: CountRequest, loaded: LoadedModel, send: Callable[[Event], None]
) -> PromptCounted:
    """Count the tokens of a conversation, and how many of them the cache would give.

    Args:
        request: The conversation.
        loaded: The model; its cache stays as it is.
        send: Sends off that the template runs.
    """
    try:
        send(TemplateRuns(running=True))
        try:
            rendered = loaded.prompts.render(request.messages)
        finally:
            send(TemplateRuns(running=False))
        ids = loaded.prompts.tokenize(rendered, draft=True).ids
        draft = request.messages[-1].content if request.messages else ""
        message_tokens = len(loaded.vocabulary.tokenize(draft, parse_special=False))
    except (ChatTemplateError, LlamaError) as error:
        return _not_counted(request, str(error))
    if not ids:
        return _not_counted(request, "the chat template made an empty prompt")
    cache_n = loaded.cache.would_keep(ids)
    return PromptCounted(
        number=request.number,
        message_tokens=message_tokens,
        prompt_tokens=len(ids),
        cache_n=cache_n,
        prompt_n=len(ids) - cache_n,
        n_ctx=loaded.context.n_ctx,
    )


def _not_counted(request: CountRequest, problem: str) -> PromptCounted:
    return PromptCounted(request.number, 0, 0, 0, 0, 0, problem)
