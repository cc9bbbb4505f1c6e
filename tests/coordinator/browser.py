"""A headless Chromium, driven through the pipe of its DevTools protocol. Standard library only."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

PATIENCE = 60  # seconds, for any one answer


class Browser:
    """One browser with one page. What the page logs, throws and asks for is kept."""

    def __init__(self, binary):
        self.profile = tempfile.mkdtemp(prefix="lockstep-page-")
        from_us, self.to_browser = os.pipe()
        self.from_browser, to_us = os.pipe()

        def place():  # DevTools reads from 3 and writes to 4
            high = [os.dup2(fd, 20 + i) for i, fd in enumerate((from_us, to_us))]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [binary, "--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu",
             "--disable-background-networking", "--disable-component-update", "--no-first-run",
             "--disable-dev-shm-usage", "--disable-extensions", "--disable-sync", "--mute-audio",
             f"--user-data-dir={self.profile}", "about:blank"],
            close_fds=False, preexec_fn=place, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, start_new_session=True)
        os.close(from_us)
        os.close(to_us)
        os.set_blocking(self.from_browser, False)
        self.buffer, self.last_id, self.session = b"", 0, None
        self.problems, self.requests = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self, until):
        while b"\0" not in self.buffer:
            if time.monotonic() > until:
                raise TimeoutError("the browser did not answer")
            try:
                part = os.read(self.from_browser, 1 << 20)
                if not part:
                    raise RuntimeError("the browser has ended")
                self.buffer += part
            except BlockingIOError:
                time.sleep(0.005)
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def note(self, message):
        method, what = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = what["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.problems.append(what["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
            self.problems.append(str(what["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"])

    def call(self, method, **parameters):
        self.last_id += 1
        request = {"id": self.last_id, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(request).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            message = self.message(until)
            if message.get("id") != self.last_id:
                self.note(message)
            elif "error" in message:
                raise RuntimeError(f"{method}: {message['error']}")
            else:
                return message["result"]

    def ask(self, expression):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression, seconds=15):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.ask(expression):
                return True
            time.sleep(0.05)
        return False

    def screen(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url):
        self.problems, self.requests = [], []
        self.call("Page.navigate", url=url)
        if not self.wait_for(f"location.href.startsWith({json.dumps(url)}) && "
                             "document.readyState === 'complete' && "
                             "'painted' in document.documentElement.dataset"):
            raise TimeoutError(f"{url} was not shown: {self.problems}")

    def key(self, name, code=0):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                      windowsVirtualKeyCode=code)

    def shot(self, file, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(file, "wb") as out:
            out.write(base64.b64decode(data["data"]))
