"""Drives the command against LLMock, a server that fails as model APIs do, and asks for its verdict.

    judge.py PROGRAM FOLDER

PROGRAM is the built command, FOLDER is where the packages of judge.txt are. Every fault is tried over
every wire. A finding of the verdict, a warning too, or an exit code that is not the expected one fails.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

# How long the server may take to start, in seconds.
START_MAX = 120

WIRES = ["anthropic://claude-test", "openai://gpt-test", "openai-responses://gpt-test"]

CONFIG = """
providers:
  anthropic: {{ base_url: "{url}/anthropic", timeouts: {{ silence_max: 1s, first_max: 5s }} }}
  openai: {{ base_url: "{url}/v1", timeouts: {{ silence_max: 1s, first_max: 5s }} }}
  openai-responses: {{ base_url: "{url}/v1", timeouts: {{ silence_max: 1s, first_max: 5s }} }}
"""


def fail(status, **more):
    return {"type": "fail", "status": status, **more}


def stream(kind, **more):
    return {"type": "stream_fault", "kind": kind, "after_chunks": 3, **more}


CALL = {"type": "reply", "tool_calls": [{"name": "echo", "arguments": {"text": "one"}}]}
TEXT = {"type": "reply", "text": "One, " * 30 + "and no more."}

TOO_LONG = "prompt is too long: 300000 tokens > 200000 maximum"

# What is tried, what the server does, and the exit code that follows.
FAULTS = [
    ("nothing", [TEXT], 0),
    ("a tool", [CALL, TEXT], 0),
    ("a rate limit, twice", [fail(429, retry_after=1, times=2), TEXT], 0),
    ("an overload, three times", [fail(503, times=3), TEXT], 0),
    ("an internal error", [fail(500), TEXT], 0),
    ("an outage", [fail(503, times=None)], 5),
    ("a bad request", [fail(400)], 5),
    ("a wrong key", [fail(401)], 5),
    ("a key without rights", [fail(403)], 5),
    ("a model that is not there", [fail(404)], 5),
    ("a request that is not understood", [fail(422)], 5),
    ("a prompt that is too long", [fail(400, message=TOO_LONG, times=None)], 5),
    ("a picture that is refused", [fail(400, message="Could not process image", times=None)], 5),
    ("a dropped connection", [TEXT, stream("disconnect"), TEXT], 0),
    ("a stream that ends early", [TEXT, stream("truncate"), TEXT], 0),
    ("a call that ends early", [CALL, stream("truncate"), CALL, TEXT], 0),
    ("a damaged event", [TEXT, stream("malformed"), TEXT], 0),
    ("a stream that stalls", [TEXT, stream("stall", stall_seconds=20), TEXT], 0),
    ("arguments that are no JSON", [{"type": "tool_fault", "kind": "malformed_arguments"}], 0),
    ("a tool that was never offered", [{"type": "tool_fault", "kind": "unknown_tool"}], 0),
]


def main(program, folder):
    threads, wrong = [], []
    for model in WIRES:
        thread = threading.Thread(target=judge, args=(program, folder, model, wrong))
        threads.append(thread)
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{len(WIRES) * len(FAULTS)} faults tried, {len(wrong)} handled badly")
    for text in wrong:
        print(text)
    return 1 if wrong else 0


def judge(program, folder, model, wrong):
    try:
        with tempfile.TemporaryDirectory() as work:
            with Judge(folder) as server:
                prepare(work, server.url)
                for name, behaviors, code in FAULTS:
                    for text in server.try_out(program, work, model, behaviors, code):
                        wrong.append(f"{model}, {name}: {text}")
    except Exception as error:
        wrong.append(f"{model}: {error}")


def prepare(work, url):
    os.makedirs(f"{work}/home")
    os.makedirs(f"{work}/agent")
    with open(f"{work}/home/config.yaml", "w") as file:
        file.write(CONFIG.format(url=url))
    with open(f"{work}/agent/agent.yaml", "w") as file:
        file.write("name: judged\ntools: { echo: }\n")


class Judge:
    """One LLMock on a free port."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
        start = "from llmock.cli import app; app()"
        # Slow enough that the server sees a client that stops reading.
        command = [sys.executable, "-c", start, "serve", "--port", str(port)]
        command += ["--stream-chunk-delay-ms", "10"]
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": folder},
            stdout=self.output,
            stderr=subprocess.STDOUT,
        )

    def __enter__(self):
        end = time.monotonic() + START_MAX
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.ask("GET", "verdict")
                return self
            except OSError:
                time.sleep(0.1)
        self.__exit__()
        self.output.seek(0)
        raise RuntimeError(f"LLMock did not start: {self.output.read()[-500:].decode()}")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/_llmock/{path}", data, method=method)
        with self.open(request, timeout=30) as answer:
            return json.load(answer)

    def try_out(self, program, work, model, behaviors, code):
        self.ask("POST", "reset")
        self.ask("POST", "scenario", {"behaviors": behaviors})
        command = [program, "run", "--agent", f"{work}/agent", "--model", model, "Say one."]
        ran = subprocess.run(
            command,
            cwd=work,
            env={"INSPAN_HOME": f"{work}/home", "HOME": work, "PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if ran.returncode != code:
            yield f"exit code {ran.returncode}, not {code}: {ran.stderr[-600:]}"
        verdict = self.ask("GET", "verdict")
        if verdict["attempts"] == 0:
            yield f"no request came: {ran.stderr[-600:]}"
        for finding in verdict["findings"]:
            yield f"{finding['severity']} {finding['code']}: {finding['title']}"


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])))
