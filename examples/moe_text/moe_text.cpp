// Trains a byte-level language model with an expert-parallel mixture of experts on real text. Every
// rank takes its share of each batch of lines, so sizes differ between ranks and steps; lockstep
// keeps the compiled graphs the same.   mpirun -n 4 moe_text [--help]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "model.h"
#include "text.h"
#include <CLI/CLI.hpp>

namespace {

using namespace moe_text;
using lockstep::Result;
using lockstep::Status;

struct Options {
  std::vector<std::string> text = {usual_text()};
  int steps = 400, lines = 64, every = 10;
  double rate = 3e-3;
  std::string dtype = "f32", device = "host", losses;
};

/// Values of one tensor, or of one expert of it, each from its own seed: the same for any number of
/// ranks.
void fill(Array& array, std::int64_t first, std::int64_t count, const std::string& name,
          double scale) {
  std::seed_seq seed(name.begin(), name.end());
  std::mt19937_64 engine(seed);
  for (std::int64_t i = 0; i < count; ++i)
    array.set(first + i, scale * (2.0 * static_cast<double>(engine() >> 11) * 0x1p-53 - 1.0));
}

Tensor random(DType dtype, std::vector<std::int64_t> sizes, const std::string& name, double scale) {
  Array array(dtype, std::move(sizes));
  fill(array, 0, array.elements(), name, scale);
  return array;
}

Tensor ones(DType dtype, std::int64_t n) {
  Array array(dtype, {n});
  for (std::int64_t i = 0; i < n; ++i) array.set(i, 1.0);
  return array;
}

Parameters initial(const Shape& s, DType dtype, int rank, int ranks) {
  const double w = std::sqrt(3.0 / static_cast<double>(s.width));
  Parameters p;
  p.embed = random(dtype, {s.vocabulary, s.width}, "embed", 1.0);
  p.position = random(dtype, {s.positions, s.width}, "position", 0.3);
  for (Tensor* norm : {&p.norm_attention, &p.norm_experts, &p.norm_head})
    *norm = ones(dtype, s.width);
  p.query = random(dtype, {s.width, s.width}, "query", w);
  p.key = random(dtype, {s.width, s.width}, "key", w);
  p.value = random(dtype, {s.width, s.width}, "value", w);
  p.out = random(dtype, {s.width, s.width}, "out", w);
  p.router = random(dtype, {s.width, s.experts}, "router", w);
  p.head = random(dtype, {s.width, 256}, "head", w);
  const std::int64_t here = s.experts / ranks, matrix = s.width * s.hidden;
  Array in(dtype, {here, s.width, s.hidden}), out(dtype, {here, s.hidden, s.width});
  for (std::int64_t e = 0; e < here; ++e) {
    const std::string expert = std::to_string(rank * here + e);
    fill(in, e * matrix, matrix, "expert_in " + expert, w);
    fill(out, e * matrix, matrix, "expert_out " + expert,
         std::sqrt(3.0 / static_cast<double>(s.hidden)));
  }
  p.expert_in = in, p.expert_out = out;
  return p;
}

Parameters zeros_of(Parameters& p) {
  Parameters z;
  const auto from = p.all(), to = z.all();
  for (std::size_t i = 0; i < from.size(); ++i)
    *to[i] = Array::zeros(from[i]->dtype(), from[i]->array().sizes());
  return z;
}

Tensor indices(std::vector<std::int64_t> sizes, const std::vector<std::int64_t>& values) {
  Array array(DType::I64, std::move(sizes));
  std::copy(values.begin(), values.end(), array.data_as<std::int64_t>());
  return array;
}

Batch batch_of(const std::vector<std::string>& lines, std::size_t first, int count,
               const Job& job) {
  const LineBatch share =
      share_of_batch(lines, first, static_cast<std::size_t>(count), job.rank(), job.size());
  const auto n = static_cast<std::int64_t>(share.rows.size());
  return {indices({share.lines, share.width}, share.tokens), indices({n}, share.rows),
          indices({n}, share.targets)};
}

/// "12% to 21%": the shares of rows of the least and the most loaded expert.
std::string load_text(const Array& load) {
  double least = INFINITY, most = 0, total = 0;
  for (std::int64_t e = 0; e < load.elements(); ++e) {
    least = std::min(least, load.at(e)), most = std::max(most, load.at(e)), total += load.at(e);
  }
  char text[64];
  std::snprintf(text, sizeof text, "%.0f%% to %.0f%%", 100 * least / total, 100 * most / total);
  return text;
}

Result<void> train(Job& job, const Options& options, const Text& text) {
  const bool speaks = job.rank() == 0;
  const Shape shape;
  const DType dtype = options.dtype == "f64" ? DType::F64 : DType::F32;
  // In bf16 parameters and their moments stay f32: a step is often smaller than their last places.
  const DType products = options.dtype == "bf16" ? DType::BF16 : DType::F32;
  auto train_step = job.frame<StepInput, StepOutput>("train_step", [&](StepInput in) {
    const Autocast precision(in.parameters.embed, products);
    return step(in, job.size());
  });
  auto test = job.frame<EvaluateInput, Measures>("evaluate", [&](EvaluateInput in) {
    const Autocast precision(in.parameters.embed, products);
    return evaluate(in.parameters, in.batch, job.size());
  });
  std::FILE* losses =
      speaks && !options.losses.empty() ? std::fopen(options.losses.c_str(), "w") : nullptr;

  StepInput in;
  in.parameters = initial(shape, dtype, job.rank(), job.size());
  in.first_moment = zeros_of(in.parameters), in.second_moment = zeros_of(in.parameters);
  double margin = INFINITY;
  for (int s = 1; s <= options.steps; ++s) {
    in.batch =
        batch_of(text.train, static_cast<std::size_t>((s - 1) * options.lines), options.lines, job);
    in.rate = options.rate * std::sqrt(1 - std::pow(0.999, s)) / (1 - std::pow(0.9, s));
    auto out = train_step(std::move(in));
    if (!out) return out.error();
    in.parameters = out->parameters, in.first_moment = out->first_moment,
    in.second_moment = out->second_moment;
    const double loss = out->measures.loss.array().at(0);
    margin = std::min(margin, out->measures.margin.array().at(0));
    if (losses) std::fprintf(losses, "%.17g\n", loss);
    if (speaks && (s % options.every == 0 || s == 1 || train_step.last_compiled()))
      std::printf("step %4d  loss %.4f nats per byte  experts hold %s of the rows  %s\n", s, loss,
                  load_text(out->measures.load.array()).c_str(), train_step.last_call().c_str());
    std::fflush(stdout);
  }
  if (losses) std::fclose(losses);

  double sum = 0, count = 0;
  const auto held_out = static_cast<std::size_t>(text.held_out.size());
  for (std::size_t first = 0; first < held_out; first += static_cast<std::size_t>(options.lines)) {
    const int lines =
        static_cast<int>(std::min(held_out - first, static_cast<std::size_t>(options.lines)));
    const auto out = test({in.parameters, batch_of(text.held_out, first, lines, job)});
    if (!out) return out.error();
    double rows = 0;
    for (std::int64_t e = 0; e < out->load.array().elements(); ++e) rows += out->load.array().at(e);
    sum += rows * out->loss.array().at(0), count += rows;
    margin = std::min(margin, out->margin.array().at(0));
  }
  if (speaks) {
    std::printf("held-out loss %.4f nats per byte (unigram entropy %.4f, bigram %.4f)\n",
                sum / count, text.unigram, text.bigram);
    std::printf("smallest top-2 margin of the router %.3g\n", margin);
  }
  // In f32 rounding changes losses with the number of ranks; use f64 to compare them.
  if (dtype == DType::F64 && margin < 1e-6)
    return Status{.code = lockstep::Code::RuntimeAssert,
                  .message =
                      "the router's two best experts came closer than 1e-6, so a run on another "
                      "number of ranks may route a row otherwise; compare fewer steps with --steps",
                  .source = {},
                  .groups = {}};
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Trains a mixture-of-experts language model on real text, on all ranks that mpirun starts "
      "(1, 2, 4 or 8).");
  app.add_option("--text", options.text, "Files or directories of text")->capture_default_str();
  app.add_option("--steps", options.steps, "Training steps")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--lines", options.lines, "Lines per batch, over all ranks")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--every", options.every, "Print every so many steps")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--rate", options.rate, "Learning rate of Adam")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--dtype", options.dtype,
                 "Of parameters and activations; bf16: products in bf16, parameters in f32")
      ->check(CLI::IsMember({"bf16", "f32", "f64"}))
      ->capture_default_str();
  app.add_option("--device", options.device, "Where the steps run: this processor or NVIDIA GPUs")
      ->check(CLI::IsMember({"host", "cuda"}))
      ->capture_default_str();
  app.add_option("--losses", options.losses,
                 "Write the loss of each step to this file, all digits");
  // All ranks read the same options and files; one rank prints what is wrong with them.
  const bool first = rank_told() == 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    if (first) std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    if (first) std::fprintf(stderr, "moe_text: %s; see moe_text --help.\n", error.what());
    return 2;
  }
  Text text;
  std::string error;
  if (!read_text(options.text, text, error)) {
    if (first) std::fprintf(stderr, "moe_text: %s.\n", error.c_str());
    return 2;
  }
  auto job = Job::init(&argc, &argv,
                       {.processor = options.device == "cuda" ? Processor::Cuda : Processor::Host});
  if (!job) return Job::report(job.error());
  if (Shape().experts % (*job)->size() != 0)
    return (*job)->fail(
        {.code = lockstep::Code::BadInput,
         .message =
             "The 8 experts cannot be spread evenly over this number of ranks; use 1, 2, 4 or 8.",
         .source = {},
         .groups = {}});
  if ((*job)->rank() == 0)
    std::printf(
        "%zu lines to learn from, %zu held out; %lld empty lines (each predicts its end), %lld of "
        "one byte\n",
        text.train.size(), text.held_out.size(), static_cast<long long>(text.empty_lines),
        static_cast<long long>(text.one_byte_lines));
  return (*job)->run([&] { return train(**job, options, text); });
}
