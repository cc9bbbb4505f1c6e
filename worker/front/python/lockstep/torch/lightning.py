"""Lightning's Trainer under watch(): Trainer(callbacks=[lockstep.torch.lightning.WatchCallback()])."""

from __future__ import annotations

from typing import Any, Optional

from lightning.pytorch import Callback

from .watch import Watch, watch_where_none_is


class WatchCallback(Callback):  # type: ignore[misc, unused-ignore]
    """Watches from setup(), when the ranks have met, to the end of fit(), validate(), test() or predict(). The
    parameters are those of watch(). Does nothing if the program has called watch()."""

    def __init__(self, policy: Any = "recompile", process_group: Any = None, **options: Any) -> None:
        self._policy, self._process_group, self._options = policy, process_group, options
        self._watch: Optional[Watch] = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if self._watch is None:
            self._watch = watch_where_none_is(self._policy, self._process_group, self._options)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
