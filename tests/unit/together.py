"""Several things at the same moment."""

import threading
from collections.abc import Callable


def together(*works: Callable[[], None]) -> None:
    """Run all at the same moment; the first failure is raised here."""
    barrier = threading.Barrier(len(works))
    failures: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        barrier.wait(30)
        try:
            work()
        except BaseException as error:  # noqa: BLE001 (raised again below)
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if failures:
        raise failures[0]
