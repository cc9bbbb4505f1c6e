"""Transformers' Trainer under watch(): Trainer(…, callbacks=[lockstep.torch.transformers.WatchCallback()])."""

from __future__ import annotations

from typing import Any, Optional

from transformers import TrainerCallback

from .watch import Watch, watch_where_none_is


class WatchCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Watches from the beginning of train() to its end. The parameters are those of watch(). Does nothing if the
    program has called watch()."""

    def __init__(self, policy: Any = "recompile", process_group: Any = None, **options: Any) -> None:
        self._policy, self._process_group, self._options = policy, process_group, options
        self._watch: Optional[Watch] = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._watch is None:
            self._watch = watch_where_none_is(self._policy, self._process_group, self._options)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
