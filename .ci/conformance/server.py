"""Runs the conformance suite of MCP against a server of ours, and counts.

    server.py PROGRAM FOLDER SUITE...

PROGRAM is the built example `conformance-server`, FOLDER takes the results, SUITE is the command of the
suite. Every scenario of every revision below runs; what is not expected in expected.yml fails.
"""

import os
import re
import shutil
import subprocess
import sys

REVISIONS = ["2025-11-25", "2026-07-28"]

EXPECTED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected.yml")


def main(program, folder, suite):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    # It ends with its input.
    server = subprocess.Popen([program, "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().strip()
    wrong = 0
    for revision in REVISIONS:
        wrong += judge(suite, url, revision, folder)
    server.stdin.close()
    if server.wait(timeout=60) != 0:
        print(f"the server ended with {server.returncode}")
        wrong += 1
    return 1 if wrong else 0


def judge(suite, url, revision, folder):
    command = [*suite, "server", "--url", url, "--suite", "all", "--spec-version", revision]
    command += ["--expected-failures", EXPECTED, "-o", os.path.join(folder, revision)]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    output = ran.stdout + ran.stderr
    scenarios = re.findall(r"^([✓✗~!]) ([a-z0-9-]+): (\d+) passed, (\d+) failed", output, re.MULTILINE)
    whole = sum(1 for _, _, _, failed in scenarios if failed == "0")
    passed = sum(int(passed) for _, _, passed, _ in scenarios)
    failed = sum(int(failed) for _, _, _, failed in scenarios)
    print(
        f"server, {revision}: {whole} of {len(scenarios)} scenarios whole, "
        f"{passed} checks passed, {failed} failed"
    )
    if ran.returncode != 0 or not scenarios:
        print(output[output.rfind("=== SUMMARY ===") :])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]))
