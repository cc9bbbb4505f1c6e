"""Counts the results of the ctest runs of scripts/test and prints them as the last line.

usage: count_tests.py FOLDER TIER       the line; exit code 0 only if something ran and nothing failed
       count_tests.py --failed FOLDER   exit code 0 if a test with real time failed

FOLDER has JUnit files, each with ctest's exit code beside it: beside.xml (tests that run beside each other), alone.xml
(tests with the label "time") and again.xml (the second run of tests that failed in alone.xml). A skipped MPI test is a
failure, since it is only registered in builds with MPI.
"""
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

LEFT_OUT = {"quick": "; left out: 1, 3 and 4 ranks, most deadlines, values of most ops, fuzzers, emulated GPUs, browsers,"
                     " packages, model checking (scripts/test --all)"}


class Run:
    """One ctest run: its tests by name, and whether each passed (True), failed (False) or was skipped (None)."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        self.tests = {}
        try:
            self.code = int((folder / f"{name}.code").read_text())
            results = folder / f"{name}.xml"  # ctest writes none if no test was selected
            cases = ElementTree.parse(results).getroot().iter("testcase") if results.exists() or self.code != 0 else ()
        except (OSError, ValueError, ElementTree.ParseError) as error:
            self.code, cases = 1, ()
            print(f"scripts/test: no results of the run {name}: {error}", file=sys.stderr)
        for case in cases:
            status, test = case.get("status"), case.get("name", "")
            skipped = case.find("skipped") is not None or status in ("notrun", "disabled")
            failed = case.find("failure") is not None or status == "fail"
            if skipped and not failed and "_mpi" in test:
                print(f"scripts/test: {test} was skipped although MPI is built in: counted as failed", file=sys.stderr)
                failed = True
            while test in self.tests:  # tests whose parameters print alike
                test += "'"
            self.tests[test] = False if failed else None if skipped else True

    def failed(self) -> list:
        return [test for test, passed in self.tests.items() if passed is False]

    def broken(self) -> bool:
        """True if ctest failed though no test did."""
        return self.code != 0 and not self.failed()


def main() -> int:
    if sys.argv[1] == "--failed":
        return 0 if Run(pathlib.Path(sys.argv[2]), "alone").failed() else 1
    folder, tier = pathlib.Path(sys.argv[1]), sys.argv[2]
    runs = [Run(folder, name) for name in ("beside", "alone", "again") if name != "again" or (folder / "again.code").exists()]
    tests = {}
    for run in runs:
        tests.update(run.tests)
    results = list(tests.values())
    failed = results.count(False) + sum(run.broken() for run in runs) + (not results)
    at_second_try = [test for test in runs[1].failed() if tests[test]]
    line = f"{results.count(True)} passed, {failed} failed, {results.count(None)} skipped"
    if at_second_try:
        line += f"; {len(at_second_try)} passed at the second try: {', '.join(at_second_try)}"
    print(line + LEFT_OUT.get(tier, ""))
    return 1 if failed else 0


sys.exit(main())
