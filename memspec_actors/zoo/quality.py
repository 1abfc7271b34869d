"""Check a target's answers against the world: headings, copied slots, sums, code that runs, no loops."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from tokenizers import Tokenizer

from memspec_actors.zoo.tokenizer import EOS_ID
from memspec_actors.zoo.world import ANCHORS, Item, Request, heading, request_lines

__all__ = ["is_loop", "measure_quality", "run_code", "sums_hold"]

LOOP_WINDOW, LOOP_REPEATS = 12, 4
_SECTION = re.compile(rf"\n\n(?=(?:{'|'.join(ANCHORS)}) )")
_SUM = re.compile(r"(\d+) ([*+]) (\d+) = (\d+)")


def measure_quality(answers: Sequence[tuple[Request, Sequence[int]]], tokenizer: Tokenizer) -> dict[str, float]:
    """Give the share of answers, items, slots and sums that are right, by measure.

    `loops` is the share of answers that never end or repeat twelve tokens four times. `heading` compares the whole
    line; `slots` wants every name and number of the line in the body; `sums` wants every equation of a math body to
    hold, to start from the requested number and to end in the stated answer; `code_runs` and `code_behaves` execute the
    body, the latter against the true one; `body` is exact equality with the world's text, by domain too.
    """
    found: defaultdict[str, list[bool]] = defaultdict(list)
    for request, output in answers:
        found["loops"].append(is_loop(output))
        text = tokenizer.decode(list(output), skip_special_tokens=True)
        sections = _SECTION.split(text)
        found["num_sections"].append(len(sections) == len(request.items))
        lines = request_lines([item.title for item in request.items])
        sections += [""] * (len(lines) - len(sections))
        for line, item, section in zip(lines, request.items, sections, strict=False):
            for measure, right in _check_item(item, heading(line), section).items():
                found[measure].append(right)
    return {measure: sum(values) / len(values) for measure, values in sorted(found.items())}


def is_loop(output: Sequence[int]) -> bool:
    """Say whether an output never ends or repeats itself."""
    if EOS_ID not in output:
        return True
    windows = Counter(tuple(output[i : i + LOOP_WINDOW]) for i in range(len(output) - LOOP_WINDOW + 1))
    return max(windows.values(), default=0) >= LOOP_REPEATS


def _check_item(item: Item, expected: str, section: str) -> dict[str, bool]:
    found, _, body = section.partition("\n")
    checks = {
        "heading": found == expected,
        "slots": all(re.search(rf"\b{slot}\b", body) for slot in item.slots),
        "body": body == item.body,
        f"body_{item.domain}": body == item.body,
    }
    if item.domain == "math":
        checks["sums"] = sums_hold(body, int(item.slots[1]))
    if item.domain == "code":
        behaviour = run_code(body)
        checks["code_runs"] = behaviour is not None
        checks["code_behaves"] = behaviour is not None and behaviour == run_code(item.body)
    return checks


def sums_hold(body: str, number: int) -> bool:
    """Say whether a math body multiplies `number`, adds to the product, gets both right and states the total last."""
    sums = [(int(a), op, int(b), int(c)) for a, op, b, c in _SUM.findall(body)]
    if [op for _, op, _, _ in sums] != ["*", "+"]:
        return False
    (n, _, factor, product), (again, _, extra, total) = sums
    return (
        n == number and product == n * factor and again == product and total == again + extra and f" {total} " in body
    )


def run_code(body: str) -> tuple[str, ...] | None:
    """Execute a code body on fixed inputs and give what its calls return or raise; None if it does not even run.

    Only for text of the embedded models: it is executed as it is, with a handful of builtins.
    """
    scope: dict[str, object] = {"__builtins__": _BUILTINS}
    try:
        exec(compile(body, "<answer>", "exec"), scope)
    except Exception:  # noqa: BLE001  any fault of the text means that it does not run
        return None
    functions = [value for name, value in scope.items() if name != "__builtins__" and callable(value)]
    if len(functions) != 1:
        return None
    return tuple(_call(functions[0], argument) for argument in _INPUTS)


def _call(function: object, argument: object) -> str:
    assert callable(function)
    try:
        return repr(function(argument))
    except Exception as error:  # noqa: BLE001  an error is a result, to be compared with the reference's
        return repr(error)


class _Row(dict[str, int]):
    """A record that has a number for every key."""

    def __missing__(self, key: str) -> int:
        return sum(key.encode()) % 97


_INPUTS: Sequence[object] = (3, 7, 200, [_Row()], [_Row(), _Row(price=500, length=1, rank=77)], [])
_BUILTINS: Mapping[str, object] = {
    function.__name__: function
    for function in (
        min,
        max,
        pow,
        divmod,
        dict,
        zip,
        KeyError,
        ValueError,
        LookupError,
        IndexError,
        RuntimeError,
        TypeError,
    )
}
