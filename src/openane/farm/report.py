"""What a farm found, as lines for people and as plain data: the same whoever did which job, and in whichever order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openane.farm.job import ACTIONS, FarmJob, Result
from openane.wording import line_text, plural

Known = Sequence[tuple[FarmJob, Mapping[str, Result]]]
"""Jobs, and what is known of each by action."""
COLUMNS = (("tasks", "compile", "tasks"), ("host", "compile", "host_operations"), ("constants", "compile",
           "constant_bytes"), ("error", "check", "error"), ("us (modelled)", "profile", "time_us"))
"""Heading of a column, and the action that finds it under which name."""
NONE = "-"


def document(known: Known) -> dict[str, Any]:
    """Everything but how long it took to find out; times of programs are modelled, in microseconds."""
    return {"models": len({job.model for job, _ in known}), "jobs": len(known),
            "actions": {action: _counts(action, known) for action in _actions(known)},
            "rows": [{"model": job.model, **job.options.document(),
                      **{action: _found(found.get(action)) for action in job.actions}} for job, found in known]}


def lines(known: Known) -> Iterator[str]:
    """How many jobs there are and what became of each action."""
    models = len({job.model for job, _ in known})
    yield f"{plural(models, 'model')} in {plural(len(known), 'job')}"
    for action in _actions(known):
        counts = _counts(action, known)
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts["errors"].items())
        left = f", {counts['left']} not yet done" if counts["left"] else ""
        wrong = f", {counts['wrong']} of them wrong" if counts["wrong"] else ""
        yield f"  {action:<8} {counts['done']} done{wrong}" + (f", errors: {kinds}" if kinds else "") + left


def rows(known: Known) -> tuple[list[str], list[list[object]]]:
    """A heading, and a row for each job: what was found, or the first error."""
    columns = [column for column in COLUMNS if column[1] in _actions(known)]
    heading = ["model", "target", "optimise", *(heading for heading, _, _ in columns), ""]
    return heading, [[line_text(job.model, 48), job.options.target, job.options.optimise,
                      *(_cell(found.get(action), name) for _, action, name in columns), _error(found)]
                     for job, found in known]


def _cell(result: Result | None, name: str) -> str:
    number = None if result is None else result.found.get(name)
    return NONE if number is None else f"{number:.4g}" if isinstance(number, float) else str(number)


def _error(found: Mapping[str, Result]) -> str:
    failed = [found[action] for action in ACTIONS if action in found and found[action].error_type]
    return line_text(f"{failed[0].error_type}: {failed[0].error.partition(chr(10))[0]}") if failed else ""


def _actions(known: Known) -> list[str]:
    return [action for action in ACTIONS if any(action in job.actions for job, _ in known)]


def _counts(action: str, known: Known) -> dict[str, Any]:
    """How many of an action are done, not right (where it judges), left, and ended with an error, by its type."""
    results = [found.get(action) for job, found in known if action in job.actions]
    errors = Counter(each.error_type for each in results if each is not None and each.error_type)
    done = [each for each in results if each is not None and not each.error_type]
    return {"done": len(done), "wrong": sum(each.found.get("right") is False for each in done),
            "left": results.count(None), "errors": dict(sorted(errors.items()))}


def _found(result: Result | None) -> dict[str, Any] | None:
    if result is None:
        return None
    return {"error": {"type": result.error_type, "message": result.error}} if result.error_type else dict(result.found)
