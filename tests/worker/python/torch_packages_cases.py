"""Real packages on top of torch, one per case, for torch_packages_test.py: `torch_packages_cases.py CASE` prints what came out
as a line of JSON. WATCH: see torch_legal_cases.py."""

import contextlib
import importlib
import json
import os
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist

warnings.filterwarnings("ignore")
RANK, SIZE, WATCH = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ.get("WATCH", "")
os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"] = os.environ["RANK"], os.environ["WORLD_SIZE"]
if WATCH:
    import lockstep.torch


def of_watch():
    return {"policy": WATCH if WATCH in ("audit", "error") else "recompile", "deadline": 20.0}


def callbacks(package):
    """What a user adds to a Trainer."""
    if not WATCH:
        return []
    return [importlib.import_module(f"lockstep.torch.{package}").WatchCallback(**of_watch())]


def compiled(model):
    if WATCH == "compile":
        return lockstep.torch.compile(model, backend="aot_eager", fullgraph=False)
    return torch.compile(model, backend="aot_eager")


class Lines(torch.utils.data.Dataset):
    """Of tokens, each as long as it happens to be."""

    def __init__(self, count):
        made = torch.Generator().manual_seed(7)
        self.lines = [torch.randint(1, 97, (int(torch.randint(3, 12, (1,), generator=made)),), generator=made) for _ in range(count)]

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        return {"input_ids": self.lines[i], "labels": self.lines[i]}


def padded(lines):
    longest = max(len(line["input_ids"]) for line in lines)
    tokens = torch.stack([torch.nn.functional.pad(line["input_ids"], (0, longest - len(line["input_ids"]))) for line in lines])
    return {"input_ids": tokens, "attention_mask": (tokens != 0).long(), "labels": tokens.masked_fill(tokens == 0, -100)}


def language_model():
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(vocab_size=97, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                                        num_attention_heads=2, max_position_embeddings=32, use_cache=False,
                                        attn_implementation="eager"))


def accelerate():
    """bf16, accumulation, uneven batches under join_uneven_inputs, a metric that is gathered, an evaluation and a save on rank 0."""
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration, set_seed
    accelerator = Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=2,
                              dataloader_config=DataLoaderConfiguration(even_batches=False))
    set_seed(3)
    if not WATCH:
        return train_with(accelerator)
    with importlib.import_module("lockstep.torch.accelerate").watched(accelerator, **of_watch()):
        return train_with(accelerator)


def train_with(accelerator):
    model = compiled(language_model())
    loader = torch.utils.data.DataLoader(Lines(22), batch_size=2, collate_fn=padded, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
    out = []
    for _ in range(2):
        with accelerator.join_uneven_inputs([model]):
            for batch in loader:
                with accelerator.accumulate(model):
                    loss = model(**batch).loss
                    accelerator.backward(loss)
                    optimizer.step()
                    optimizer.zero_grad()
        out.append(float(accelerator.gather_for_metrics(loss.detach()).mean()))
        if accelerator.is_main_process:
            plain = accelerator.unwrap_model(model)
            with torch.no_grad():
                out.append(float(plain(**padded([Lines(9)[8]])).loss))
            with tempfile.TemporaryDirectory() as folder:
                plain.save_pretrained(folder)
                out.append(sorted(os.listdir(folder)))
        accelerator.wait_for_everyone()
    accelerator.end_training()
    return out


def trainer():
    """transformers.Trainer: a compiled model, an evaluation in each epoch, a checkpoint."""
    from safetensors import safe_open
    from transformers import Trainer, TrainingArguments

    with tempfile.TemporaryDirectory() as folder:
        how = {} if WATCH == "compile" else {"torch_compile": True, "torch_compile_backend": "aot_eager"}
        arguments = TrainingArguments(folder, use_cpu=True, per_device_train_batch_size=3, num_train_epochs=2, eval_strategy="epoch",
                                      save_strategy="epoch", logging_steps=1, report_to=[], disable_tqdm=True, seed=5,
                                      gradient_accumulation_steps=2, dataloader_drop_last=False, ddp_backend="gloo", **how)
        model = language_model()
        if WATCH == "compile":
            model.forward = compiled(model.forward)  # of its class
        made = Trainer(model, arguments, train_dataset=Lines(20), eval_dataset=Lines(7),
                       data_collator=padded, callbacks=callbacks("transformers"))
        made.train()
        names = []
        if RANK == 0:
            with safe_open(os.path.join(folder, "checkpoint-4", "model.safetensors"), "pt") as saved:
                names = sorted(saved.keys())[:2]
        return names, [{key: each[key] for key in ("loss", "eval_loss", "grad_norm") if key in each} for each in made.state.log_history]


def lightning():
    """Lightning: its Trainer with DDP, a validation in each epoch, a checkpoint on rank 0."""
    import logging

    import lightning
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Task(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.out = None, []

        def configure_model(self):
            if self.model is None:
                self.model = compiled(language_model())

        def training_step(self, batch, _):
            loss = self.model(**batch).loss
            self.out.append(float(loss))
            return loss

        def validation_step(self, batch, _):
            loss = self.model(**batch).loss
            self.log("loss", loss, sync_dist=True, batch_size=2)
            self.out.append(float(loss))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)
    lightning.seed_everything(3, verbose=False)
    with tempfile.TemporaryDirectory() as folder:
        fit = lightning.Trainer(accelerator="cpu", devices=SIZE, strategy="ddp", max_epochs=2, default_root_dir=folder, logger=False,
                                enable_progress_bar=False, enable_model_summary=False, accumulate_grad_batches=2,
                                callbacks=callbacks("lightning"))
        task = Task()
        fit.fit(task, torch.utils.data.DataLoader(Lines(14), batch_size=2, collate_fn=padded, shuffle=True),
                torch.utils.data.DataLoader(Lines(6), batch_size=2, collate_fn=padded))
    return task.out


def torchtitan():
    """torchtitan's debug model and Trainer, which needs to be told of a CPU: FSDP2, a compile per block, selective checkpointing,
    a validation."""
    import types

    import datasets
    import tokenizers
    from torch import _utils
    from torch.distributed.fsdp import FSDPModule
    from torch.nn.attention import flex_attention
    _utils._get_available_device_type = lambda: "cpu"
    memory = types.SimpleNamespace(name="cpu", total_memory=1 << 30)
    for name, gives in {"get_device_name": "cpu", "get_device_properties": memory, "memory_stats": {}, "empty_cache": None,
                        "reset_peak_memory_stats": None, "current_device": 0}.items():
        setattr(torch.cpu, name, lambda *_, gives=gives: gives)
    from torchtitan import trainer
    from torchtitan.hf_datasets import text_datasets
    from torchtitan.distributed import compile
    from torchtitan.models.common import attention
    from torchtitan.models.llama3 import parallelize
    from torchtitan.models.llama3.config_registry import llama3_debugmodel
    flex_attention._validate_device = lambda *_: None
    compile._maybe_regional_inductor_backend = lambda _, backend: backend

    def apply_compile(model, **_):  # as torchtitan had it before Module.compile()
        for name, block in model.layers.named_children():
            model.layers.register_module(name, compiled(block))
    if WATCH == "compile":
        parallelize.apply_compile = apply_compile
    attention._compiled_create_block_mask = flex_attention.create_block_mask
    attention.FlexAttention._compiled_flex_attn = torch.compile(flex_attention.flex_attention, backend="aot_eager")
    words = [str(i) for i in range(90)]
    texts = [" ".join(words[i * j % 90] for j in range(3 + i % 17)) for i in range(200)]
    text_datasets.DATASETS["c4_test"] = text_datasets.DATASETS["c4_validation"] = text_datasets.DatasetConfig(
        path="", loader=lambda _: datasets.Dataset.from_dict({"text": texts}), sample_processor=lambda sample: sample["text"])
    begins = trainer.Trainer.init_distributed

    def started(self):
        made = begins(self)
        if WATCH:
            lockstep.torch.watch(**of_watch())
        return made
    trainer.Trainer.init_distributed = started
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = {word: i for i, word in enumerate([*words, "<s>", "</s>"])}
        made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<s>"))
        made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        made.add_special_tokens(["<s>", "</s>"])
        made.save(os.path.join(folder, "tokenizer.json"))
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
            json.dump({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True, "add_eos_token": True}, file)
        config = llama3_debugmodel()
        config.hf_assets_path, config.dump_folder = folder, folder
        config.training.steps, config.training.seq_len, config.training.local_batch_size = 4, 64, 2
        config.training.mixed_precision_param = "float32"
        config.validator.freq, config.validator.steps = 2, 1
        config.checkpoint.enable, config.debug.seed = False, 3
        config.compile.enable, config.compile.backend = True, "aot_eager"
        job, out = config.build(), []
        for module in job.model_parts[0].modules():
            if isinstance(module, FSDPModule):
                module.set_force_sum_reduction_for_comms(True)  # gloo reduces by nothing else
        logs = job.metrics_processor.log
        job.metrics_processor.log = lambda step, *losses, **more: (out.append(losses[:3]), logs(step, *losses, **more))
        try:
            job.train()
        finally:
            job.close()
    return out


out = {"torchtitan": torchtitan, "accelerate": accelerate, "trainer": trainer, "lightning": lightning}[sys.argv[1]]()
print(json.dumps({"rank": RANK, "out": out}), flush=True)
if dist.is_initialized():
    dist.destroy_process_group()
