"""A server on the network that wants a login, and the place where one gets it: login.py PORT.

Everybody is let in. What was asked of it is in `journal`.
"""

import hashlib
import json
import os
import sys
import time
from base64 import urlsafe_b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlparse

PORT = int(sys.argv[1])
BASE = f"http://127.0.0.1:{PORT}"
CODES = {}
STATE = {"tokens": 0}


def journal(line):
    with open("journal", "a") as file:
        file.write(line + "\n")


def token():
    """The one that is taken now. Each lives for an hour, but for those that were spoilt."""
    return f"token-secret-{STATE['tokens']}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, body=None, **headers):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if data:
            self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        url = urlparse(self.path)
        if url.path == "/.well-known/oauth-protected-resource/mcp":
            self.say(200, {"resource": f"{BASE}/mcp", "authorization_servers": [BASE]})
        elif url.path == "/.well-known/oauth-authorization-server":
            self.say(200, {
                "issuer": BASE,
                "authorization_endpoint": f"{BASE}/authorize",
                "token_endpoint": f"{BASE}/token",
                "registration_endpoint": f"{BASE}/register",
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            })
        elif url.path == "/authorize":
            asked = {key: value[0] for key, value in parse_qs(url.query).items()}
            journal(f"authorize {asked.get('scope', '')}")
            if os.path.exists("refuse"):
                back = {"error": "access_denied", "state": asked["state"]}
            else:
                CODES["code-1"] = asked["code_challenge"]
                back = {"code": "code-1", "state": asked["state"]}
            self.say(302, location=f"{asked['redirect_uri']}?{urlencode(back)}")
        else:
            self.say(405 if url.path == "/mcp" else 404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        if self.path == "/register":
            self.say(201, {**json.loads(body), "client_id": "client-1"})
        elif self.path == "/token":
            self.token({key: value[0] for key, value in parse_qs(body).items()})
        else:
            self.mcp(json.loads(body))

    def token(self, asked):
        if asked["grant_type"] == "authorization_code":
            digest = hashlib.sha256(asked["code_verifier"].encode()).digest()
            challenge = urlsafe_b64encode(digest).decode().rstrip("=")
            if CODES.pop(asked["code"], None) != challenge:
                self.say(400, {"error": "invalid_grant"})
                return
        else:
            time.sleep(0.3)
        STATE["tokens"] += 1
        journal(f"token {asked['grant_type']}")
        self.say(200, {
            "access_token": token(), "token_type": "Bearer", "expires_in": 3600,
            "refresh_token": f"refresh-secret-{STATE['tokens']}",
        })

    def mcp(self, message):
        if os.path.exists("spoil"):
            os.remove("spoil")
            STATE["tokens"] += 1
        if self.headers.get("authorization") != f"Bearer {token()}" or not STATE["tokens"]:
            where = f"{BASE}/.well-known/oauth-protected-resource/mcp"
            self.say(401, www_authenticate=f'Bearer resource_metadata="{where}", scope="read"')
            return
        method, id = message.get("method"), message.get("id")
        if id is None:
            self.say(202)
        elif method == "initialize":
            self.result(id, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                             "serverInfo": {"name": "login", "version": "1"}})
        elif method == "tools/list":
            self.result(id, {"tools": [{"name": "who", "inputSchema": {"type": "object"}}]})
        elif method == "tools/call":
            self.result(id, {"content": [{"type": "text", "text": "you"}]})
        else:
            self.say(200, {"jsonrpc": "2.0", "id": id,
                           "error": {"code": -32601, "message": "unknown"}})

    def result(self, id, result):
        self.say(200, {"jsonrpc": "2.0", "id": id, "result": result})


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
