#include "gpu_models.h"

#include <functional>

#include "moe_text/model.h"
#include "tracing.h"

#include <lockstep/worker/tensor/autodiff/gradients.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::bench {
namespace {

using namespace worker;  // NOLINT: a model reads like a user's program
using worker::test::DecisionBuilder;
using worker::test::dynamic;

constexpr std::int64_t kVocabulary = 257, kClasses = 256;
constexpr double kRate = 1e-3;

std::string numbered(const char* letter, std::size_t i) { return letter + std::to_string(100 + i); }

/// Element i of tensor `number`, in [-0.025, 0.025): gpu_torch.py has the same formula.
Array values(std::vector<std::int64_t> sizes, std::uint32_t number) {
  Array out(DType::F32, std::move(sizes));
  auto* to = out.data_as<float>();
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    const std::uint32_t mixed =
        (static_cast<std::uint32_t>(i) + 1) * 2'654'435'761U + number * 40'503U * 65'536U;
    to[i] = static_cast<float>((static_cast<double>(mixed) * 0x1p-32 - 0.5) * 0.05);
  }
  return out;
}

Array ones(std::vector<std::int64_t> sizes) {
  Array out(DType::F32, std::move(sizes));
  std::fill_n(out.data_as<float>(), out.elements(), 1.0F);
  return out;
}

/// i * step + from, modulo `limit`.
Array counting(std::vector<std::int64_t> sizes, std::int64_t step, std::int64_t from,
               std::int64_t limit) {
  Array out(DType::I64, std::move(sizes));
  auto* to = out.data_as<std::int64_t>();
  for (std::int64_t i = 0; i < out.elements(); ++i) to[i] = (i * step + from) % limit;
  return out;
}

Result<Model> of_rows(std::int64_t rows, std::int64_t width,
                      const std::function<Tensor(Tensor)>& body) {
  DecisionBuilder decision;
  decision.tensor("x", DType::F32, {dynamic(rows, 0), width});
  auto graph = trace(test::setup(decision.get()),
                     [&](Trace& t) { t.output("y", body(t.tensor_input(t.source("x")))); });
  if (!graph) return graph.error();
  Inputs inputs;
  inputs["x"] = Array::far(DType::F32, {rows, width}, nullptr);  // sizes only
  return Model{.graph = *std::move(graph), .inputs = std::move(inputs), .next = {}};
}

/// Named parameters of a model, with what they start from.
using Named = std::vector<std::pair<std::string, Array>>;

DecisionBuilder decision_of(const Named& named) {
  DecisionBuilder out;
  for (const auto& [name, array] : named) {
    std::vector<test::Dim> dims;
    for (const std::int64_t size : array.sizes()) dims.emplace_back(size);
    out.tensor(name, array.dtype(), dims);
  }
  return out;
}

}  // namespace

Result<Model> chain(std::int64_t rows, std::int64_t width) {
  return of_rows(rows, width, [](const Tensor& x) { return relu(x * 2.0 + 1.0) * x - 0.5; });
}

Result<Model> sums(std::int64_t rows, std::int64_t width, int dim) {
  return of_rows(rows, width, [dim](const Tensor& x) {
    return dim < 0 ? sum(x * x, {0, 1}) : sum(x * x, {dim});
  });
}

Result<Model> small_kernels(int count) {
  return of_rows(1, 8, [count](Tensor x) {
    for (int i = 0; i < count; ++i) x = x + sum(x, {1}, Keep::Keep);
    return x;
  });
}

Result<Model> transformer_block(const StepShape& s) {
  Named named;
  const std::vector<std::vector<std::int64_t>> sizes{
      {s.width},          {s.width, s.width}, {s.width, s.width},  {s.width, s.width},
      {s.width, s.width}, {s.width},          {s.width, s.hidden}, {s.hidden, s.width}};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    named.emplace_back(numbered("p", i), sizes[i].size() == 1
                                             ? ones(sizes[i])
                                             : values(sizes[i], static_cast<std::uint32_t>(i)));
  named.emplace_back("x", values({s.lines, s.length, s.width}, 99));
  Model out;
  auto graph = trace(test::setup(decision_of(named).get()), [&](Trace& t) {
    std::vector<Tensor> p;
    for (std::size_t i = 0; i < sizes.size(); ++i) p.push_back(t.tensor_input(i));
    const Tensor x = t.tensor_input(sizes.size());
    moe_text::Parameters a;
    a.norm_attention = p[0], a.query = p[1], a.key = p[2], a.value = p[3], a.out = p[4];
    const Tensor y = x + moe_text::attention(x, a);
    const Tensor z = y + matmul(relu(matmul(moe_text::normalised(y, p[5]), p[6])), p[7]);
    const Tensor loss = mean(z * z, {0, 1, 2});
    const std::vector<Tensor> found = grad(loss, p);
    for (std::size_t i = 0; i < p.size(); ++i) {
      t.output(numbered("p", i), p[i] - found[i] * kRate);
      out.next.push_back(numbered("p", i));
    }
    t.output("z_loss", loss);
  });
  if (!graph) return graph.error();
  out.graph = *std::move(graph);
  out.inputs = Inputs(named.begin(), named.end());
  return out;
}

Result<Model> moe_step(const StepShape& s) {
  const std::int64_t w = s.width, cells = s.lines * s.length;
  const std::vector<std::vector<std::int64_t>> sizes{{kVocabulary, w},
                                                     {s.length, w},
                                                     {w},
                                                     {w, w},
                                                     {w, w},
                                                     {w, w},
                                                     {w, w},
                                                     {w},
                                                     {w, s.experts},
                                                     {w},
                                                     {w, kClasses},
                                                     {s.experts, w, s.hidden},
                                                     {s.experts, s.hidden, w}};
  DecisionBuilder decision;
  Model out;
  for (const char* letter : {"m", "p"})
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<test::Dim> dims;
      for (const std::int64_t size : sizes[i]) dims.emplace_back(size);
      decision.tensor(numbered(letter, i), DType::F32, dims);
    }
  decision.number("rate")
      .tensor("rows", DType::I64, {dynamic(cells, 0)})
      .tensor("targets", DType::I64, {dynamic(cells, 0)})
      .tensor("tokens", DType::I64, {dynamic(s.lines, 0), dynamic(s.length, 0)});
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::vector<test::Dim> dims;
    for (const std::int64_t size : sizes[i]) dims.emplace_back(size);
    decision.tensor(numbered("v", i), DType::F32, dims);
  }
  auto graph = trace(test::setup(decision.get()), [&](Trace& t) {
    moe_text::StepInput in;
    const auto all = [&](const char* letter, moe_text::Parameters& of) {
      const auto list = of.all();
      for (std::size_t i = 0; i < list.size(); ++i)
        *list[i] = t.tensor_input(t.source(numbered(letter, i)));
    };
    all("m", in.first_moment), all("p", in.parameters), all("v", in.second_moment);
    in.batch = {t.tensor_input(t.source("tokens")), t.tensor_input(t.source("rows")),
                t.tensor_input(t.source("targets"))};
    in.rate = t.float_input(t.source("rate"));
    moe_text::StepOutput made = moe_text::step(in, 1);
    const auto give = [&](const char* letter, moe_text::Parameters& of) {
      const auto list = of.all();
      for (std::size_t i = 0; i < list.size(); ++i) {
        t.output(numbered(letter, i), *list[i]);
        out.next.push_back(numbered(letter, i));
      }
    };
    give("m", made.first_moment), give("p", made.parameters), give("v", made.second_moment);
    t.output("z_loss", made.measures.loss);
  });
  if (!graph) return graph.error();
  out.graph = *std::move(graph);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto number = static_cast<std::uint32_t>(i);
    out.inputs[numbered("p", i)] = sizes[i].size() == 1 ? ones(sizes[i]) : values(sizes[i], number);
    for (const char* letter : {"m", "v"})
      out.inputs[numbered(letter, i)] = Array::zeros(DType::F32, sizes[i]);
  }
  out.inputs["rate"] = Array::of(DType::F64, {}, std::vector<double>{kRate});
  out.inputs["rows"] = counting({cells}, 1, 0, cells);
  out.inputs["targets"] = counting({cells}, 104'729, 7, kClasses);
  out.inputs["tokens"] = counting({s.lines, s.length}, 7'919, 13, kVocabulary);
  out.inputs["job.rank"] = Array::zeros(DType::I64, {});
  return out;
}

}  // namespace lockstep::bench
