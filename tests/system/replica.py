"""One service of several, as its callers see it."""

from typing import Any

import httpx

ADMIN_KEY = "the-operators-own-key"
PATIENT_S = 60.0


class Replica:
    """A client of one service, by the operator's key; its pool is named `pool`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=PATIENT_S, headers={"Authorization": f"Bearer {ADMIN_KEY}"})

    def call(self, method: str, path: str, headers: dict[str, str] | None = None, **body: Any) -> Any:
        answer = self._http.request(method, path, json=body, headers=headers)
        assert answer.is_success, f"{method} {path} {body}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def select(self, count: int = 1, **wish: Any) -> Any:
        return self.call("POST", "/select", dataset="pool", count=count, **wish)

    def ids(self, count: int, **wish: Any) -> list[str]:
        return [task["id"] for task in self.select(count, **wish)["tasks"]]

    def report(self, *tasks: str, **more: Any) -> Any:
        outcomes = [{"task": task, "successes": 1, "trials": 4} for task in tasks]
        return self.call("POST", "/report", dataset="pool", outcomes=outcomes, **more)

    def close(self) -> None:
        self._http.close()
