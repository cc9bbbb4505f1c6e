"""Real models under lockstep.torch.compile(), made together: some training steps with inputs of other sizes on every rank, and the
losses of the same steps by eager code, to 1e-5 (on a GPU, whose kernels round otherwise, 1e-3). For torchrun with 2
ranks and more; needs transformers and torchvision (torch.txt). torch_models_test.py [--backend NAME] [--device cuda] [MODEL]..."""

import argparse
import time
import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives

import lockstep.torch

warnings.filterwarnings("ignore")
STEPS = 5


def language_model(rank):
    """A causal language model; batches of padded lines."""
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                         num_attention_heads=4, max_position_embeddings=64, use_cache=False,
                         attn_implementation="eager")
    model = LlamaForCausalLM(config)

    def loss(model, number):
        rows, length = 2 + (number + rank) % 3, 5 + (3 * number + 2 * rank) % 7
        tokens = torch.randint(1, 97, (rows, length))
        mask = torch.ones_like(tokens)
        mask[0, length - 1 - rank % 3:] = 0
        return model(input_ids=tokens, attention_mask=mask, labels=tokens).loss
    return model, loss


def vision_model(rank):
    """A convolutional network; the last batch is smaller. In double precision: with few rows its
    normalisation makes much of the smallest difference."""
    import torchvision
    model = torchvision.models.resnet18(num_classes=10).double()

    def loss(model, number):
        rows = 4 if number < STEPS - 1 else 2 + rank % 2
        return torch.nn.functional.cross_entropy(model(torch.rand(rows, 3, 32, 32).double()), torch.arange(rows) % 10)
    return model, loss


class Experts(torch.nn.Module):
    """A layer of experts, one per rank, to which tokens go by their values."""

    def __init__(self, ranks):
        super().__init__()
        self.ranks = ranks
        self.into, self.expert, self.out = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)

    def forward(self, x):
        x = self.into(x)
        chosen = (x.detach().sum(-1) * 3).long().remainder(self.ranks)
        order = chosen.argsort(stable=True)
        sent = torch.stack([(chosen == rank).sum() for rank in range(self.ranks)])
        to = sent.tolist()
        come = collectives.all_to_all_single(sent, None, None, dist.group.WORLD).tolist()
        for count in to + come:
            torch._check(count >= 0)
        torch._check(sum(to) == x.size(0))
        rows = collectives.all_to_all_single_autograd(x[order], come, to, dist.group.WORLD)
        back = collectives.all_to_all_single_autograd(self.expert(rows).relu(), to, come, dist.group.WORLD)
        return self.out(torch.zeros_like(x).index_copy(0, order, back)).square().mean()


def mixture_of_experts(rank):
    def loss(model, number):
        return model(torch.randn(3 + (5 * number + 4 * rank) % 9, 8))
    return Experts(dist.get_world_size()), loss


class Recommender(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.items = torch.nn.EmbeddingBag(200, 16, mode="sum")
        self.top = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))

    def forward(self, items, offsets, clicked):
        return torch.nn.functional.binary_cross_entropy_with_logits(self.top(self.items(items, offsets)).squeeze(-1),
                                                                    clicked)


def recommender(rank):
    """Bags of sparse features, of another number and length on every rank."""
    def loss(model, number):
        lengths = torch.randint(1, 6, (3 + (number + 2 * rank) % 4,))
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)[:-1]])
        return model(torch.randint(0, 200, (int(lengths.sum()),)), offsets, (lengths % 2).float())
    return Recommender(), loss


MODELS = {"language": language_model, "vision": vision_model, "experts": mixture_of_experts,
          "recommender": recommender}


def train(make, compiler):
    """The losses of some steps, and what was called."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    model, loss_of = make(rank)
    called = compiler(model)
    adam = torch.optim.SGD(model.parameters(), 0.01)
    losses, compiles = [], 0
    for number in range(STEPS):
        torch.manual_seed(100 * number + rank)
        loss = loss_of(called, number)
        adam.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= ranks
        adam.step()
        losses.append(loss.item())
        compiles += bool(hasattr(called, "agreed") and called.agreed.last.is_new)
    return losses, compiles, called


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("models", nargs="*", default=list(MODELS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_default_device(given.device)
    dist.init_process_group("gloo")
    with lockstep.torch.watch(deadline=120) as watch:
        for name in given.models or MODELS:
            began = time.monotonic()
            mine, compiles, called = train(MODELS[name], lambda model: lockstep.torch.compile(
                model, backend=given.backend, name=name, group=dist.group.WORLD))
            seconds = time.monotonic() - began
            eager, _, _ = train(MODELS[name], lambda model: model)
            worst = max(abs(a - b) / abs(b) for a, b in zip(mine, eager))
            counted = [None] * dist.get_world_size()
            dist.all_gather_object(counted, (compiles, called.agreed.fallbacks))
            assert len(set(counted)) == 1, counted
            assert worst <= (1e-5 if given.device == "cpu" else 1e-3), (name, mine, eager)
            assert called.agreed.fallbacks == 0 and 1 <= compiles < STEPS, (name, compiles, called.agreed.fallbacks)
            if dist.get_rank() == 0:
                print(f"{name}: {STEPS} steps, losses as eager's to {worst:.1e}, {compiles} compiles, "
                      f"{called.agreed.fallbacks} calls without a compiled version, {seconds:.0f} s", flush=True)
    dist.destroy_process_group()


main()
