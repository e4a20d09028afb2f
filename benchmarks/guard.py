"""Nothing changes by accident: what the compiler makes of some hundred programs, beside the digests that are listed.

    python benchmarks/guard.py [NAME]... [--full] [--brief]     compares
    python benchmarks/guard.py [NAME]... --write                lists them anew

Programs are the twelve networks of models.py, the recorded compilations in $OPENANE_CORPUS, two hundred small graphs
over every operation, and what trainings and language models compile. tests/guard_digests.txt lists digests of the
words, constants and buffers of each, and of the graph it is compiled from, whose change is not the compiler's. A NAME
is a group, a program, or has wildcards. A program that differs is also compiled with the source of the commit that
listed the digests: the first task and field that differ are printed, with `--full` all of them; `--brief` leaves that
out. Exit code 1 on a difference. The commit that lists other digests says why they are others.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # the compiler beside this file, whichever is installed

from guarded.differences import described
from guarded.digests import LISTED, Difference, Digest, Digests, Key, compared, read_digests, written
from guarded.groups import GROUPS, NotHere, digests, models, wanted
from guarded.kept import keep, kept, programs_of, reference

from openane.wording import plural


def main(arguments: Sequence[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a group, a program, or a pattern; default: all")
    parser.add_argument("--write", action="store_true", help=f"write {LISTED.name}")
    parser.add_argument("--full", action="store_true", help="print every task and field that differs")
    parser.add_argument("--brief", action="store_true", help="print which programs differ, no tasks")
    parser.add_argument("--programs", type=Path, metavar="FOLDER", help="write the programs there, and compare nothing")
    options = parser.parse_args(arguments)
    if options.programs is not None:
        return write_programs(options.programs, options.names)
    listed = read_digests(LISTED) if LISTED.exists() else {}
    found, missing = compiled(options.names)
    if not found and not missing:
        print(f"guard: no program is called {' or '.join(options.names)}", file=sys.stderr)
        return 2
    expected = {key: digest for key, digest in listed.items()
                if wanted(key[0], options.names) and group_of(key) not in missing}
    differences = compared(expected, found)
    report_groups([*expected.keys() | found.keys()], differences, missing)
    if options.write:
        return write({key: digest for key, digest in listed.items() if key not in expected}, found, differences)
    lines = {} if options.brief else explained(differences, listed, options.full)
    for each in differences:
        print("\n         ".join([f"guard  {each}", *lines.get(each.key, ())]))
    return int(bool(differences))


def compiled(patterns: Sequence[str]) -> tuple[dict[Key, Digest | str], dict[str, str]]:
    """The digests of all programs that are asked for, and why groups are left out."""
    found: dict[Key, Digest | str] = {}
    missing: dict[str, str] = {}
    for group in groups_of(patterns):
        try:
            found.update(digests(group, patterns))
        except NotHere as reason:
            missing[group] = str(reason)
    return found, missing


def groups_of(patterns: Sequence[str]) -> list[str]:
    """The groups that patterns may name programs of."""
    return [group for group in GROUPS if not patterns
            or any(fnmatch.fnmatchcase(group, group_of((pattern, ""))) for pattern in patterns)]


def group_of(key: Key) -> str:
    """The group of a program."""
    return key[0].partition("/")[0]


def report_groups(keys: Sequence[Key], differences: Sequence[Difference], missing: Mapping[str, str]) -> None:
    """A line for each group that was asked for."""
    for group in GROUPS:
        count, other = (sum(group_of(key) == group for key in each) for each in (keys, [d.key for d in differences]))
        if group in missing:
            print(f"guard  {group:<9} not compared: {missing[group]}")
        elif count:
            print(f"guard  {group:<9} {plural(count, 'program')}, {count - other} as listed"
                  f"{f', {other} not' if other else ''}", flush=True)


def write(others: Digests, found: Mapping[Key, Digest | str], differences: Sequence[Difference]) -> int:
    """Lists what was found beside digests that were not asked for."""
    made = {key: digest for key, digest in found.items() if isinstance(digest, Digest)}
    if len(made) < len(found):
        failed = [str(each) for each in differences if each.key in found.keys() - made.keys()]
        print("guard: nothing is written:", *failed, sep="\n  ", file=sys.stderr)
        return 1
    LISTED.write_text(written({**others, **made}))
    print(f"guard  {plural(len(made), 'program')} listed, {len(differences)} of them otherwise than before; "
          f"{len(others)} left as listed")
    return 0


def write_programs(folder: Path, patterns: Sequence[str]) -> int:
    """Writes the programs that are asked for to a folder."""
    for group in groups_of(patterns):
        for key, model in models(group, patterns):
            if not isinstance(model, str):
                keep(folder, key, model)
    return 0


def explained(differences: Sequence[Difference], listed: Digests, full: bool) -> dict[Key, list[str]]:
    """Lines about what differs between programs and those the digests were listed with, which are compiled again."""
    keys = [each.key for each in differences if each.comparable]
    lines: dict[Key, list[str]] = {}
    if not keys:
        return lines
    try:
        with reference([name for name, _ in keys]) as (commit, folder):
            print(f"guard  what differs, beside what the source of {commit} makes:")
            for group in GROUPS:
                names = [key[0] for key in keys if group_of(key) == group]
                for key, model in models(group, names) if names else ():
                    before = kept(folder, key)
                    if before is not None and not isinstance(model, str):
                        lines[key] = [*doubts(commit, before[0], listed.get(key)),
                                      *described(before[1], programs_of(model), full)]
    except NotHere as reason:
        return {key: [f"which tasks differ is not known: {reason}"] for key in keys}
    return lines


def doubts(commit: str, made: Digest, listed: Digest | None) -> list[str]:
    """A line where the source of a commit makes other digests than are listed."""
    if listed is None or made == listed:
        return []
    others = ", ".join(made.differences(listed))
    return [f"{commit} itself makes other {others} here: the digests were listed with other packages, on another "
            "machine, or are not committed"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
