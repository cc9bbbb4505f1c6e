"""A callback of one rank logs at the end of the training epoch, those of the others at the end of validation (Lightning 21434).

class: meaning
verdict: told
ranks: 2 3
lines: training validation
odd: 1
"""
import torch
import torch.distributed as dist


class Callback:
    def on_train_epoch_end(self, trainer):
        pass

    def on_validation_epoch_end(self, trainer):
        pass


class LogsTraining(Callback):
    def on_train_epoch_end(self, trainer):
        value = torch.tensor([trainer["train"], 1.0])
        dist.all_reduce(value)  # [training]
        print("value", value.tolist(), flush=True)


class LogsValidation(Callback):
    def on_validation_epoch_end(self, trainer):
        value = torch.tensor([trainer["val"], 1.0])
        dist.all_reduce(value)  # [validation]
        print("value", value.tolist(), flush=True)


dist.init_process_group("gloo")
callbacks = [LogsTraining()] if dist.get_rank() == 1 else [LogsValidation()]
for epoch in range(3):
    print("step", epoch, flush=True)
    trainer = {"train": 4.0 - epoch, "val": 8.0 - epoch}
    for hook in ("on_train_epoch_end", "on_validation_epoch_end"):
        for callback in callbacks:
            getattr(callback, hook)(trainer)
dist.barrier()
dist.destroy_process_group()
