"""Runs the conformance suite of MCP against our client, and counts.

    client.py PROGRAM FOLDER SUITE...

PROGRAM is the built example `conformance-client`, FOLDER takes the results, SUITE is the command of the
suite. Every scenario of every revision below runs; what is not expected in client.yml fails.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys

REVISIONS = ["2025-11-25", "2026-07-28"]

EXPECTED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "client.yml")


def main(program, folder, suite):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    wrong = sum(judge(suite, program, revision, folder) for revision in REVISIONS)
    return 1 if wrong else 0


def judge(suite, program, revision, folder):
    command = [*suite, "client", "--command", shlex.quote(program), "--suite", "all"]
    command += ["--spec-version", revision, "--expected-failures", EXPECTED]
    command += ["-o", os.path.join(folder, revision)]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    output = ran.stdout + ran.stderr
    line = r"^([✓✗~!]) ([a-z0-9_/-]+): (\d+) passed, (\d+) failed(?:, (\d+) warnings)?"
    scenarios = re.findall(line, output, re.MULTILINE)
    whole = sum(1 for _, _, _, failed, warned in scenarios if failed == "0" and not warned)
    passed = sum(int(passed) for _, _, passed, _, _ in scenarios)
    failed = sum(int(failed) for _, _, _, failed, _ in scenarios)
    warned = sum(int(warned or 0) for *_, warned in scenarios)
    print(
        f"client, {revision}: {whole} of {len(scenarios)} scenarios whole, "
        f"{passed} checks passed, {failed} failed, {warned} warned"
    )
    if ran.returncode != 0 or not scenarios:
        print(output[output.rfind("=== SUITE SUMMARY ===") :])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]))
