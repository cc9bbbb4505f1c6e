// Trains a byte-level language model with an expert-parallel mixture of experts on real text. Every
// rank takes its share of each batch of lines, so sizes differ between ranks and steps; lockstep
// keeps the compiled graphs of the ranks equal.   mpirun -n 4 moe_text [--help]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "start.h"
#include <CLI/CLI.hpp>

namespace {

using namespace moe_text;
using lockstep::Result;
using lockstep::Status;

struct Options {
  std::vector<std::string> text = {usual_text()};
  int steps = 400, lines = 64, every = 10;
  double rate = 3e-3;
  std::string dtype = "f32", device = "host", losses, checkpoint;
  bool packed = false;
};

/// Returns the shares of rows of the least and the most loaded expert: "12% to 21%".
std::string load_text(const Array& load) {
  double least = INFINITY, most = 0, total = 0;
  for (std::int64_t e = 0; e < load.elements(); ++e) {
    least = std::min(least, load.at(e)), most = std::max(most, load.at(e)), total += load.at(e);
  }
  char text[64];
  std::snprintf(text, sizeof text, "%.0f%% to %.0f%%", 100 * least / total, 100 * most / total);
  return text;
}

template <class Lines>
Result<void> train(Job& job, const Options& options, const Text& text) {
  const bool speaks = job.rank() == 0;
  const Shape shape;
  const DType dtype = options.dtype == "f64" ? DType::F64 : DType::F32;
  // With bf16, parameters and their moments stay f32, because a step is often too small to change a
  // bf16 parameter.
  const DType products = options.dtype == "bf16" ? DType::BF16 : DType::F32;
  auto train_step =
      job.frame<StepInputOf<Lines>, StepOutput>("train_step", [&](StepInputOf<Lines> in) {
        const Autocast precision(in.parameters.embed, products);
        return step(in, job.size());
      });
  auto test =
      job.frame<EvaluateInputOf<Lines>, Measures>("evaluate", [&](EvaluateInputOf<Lines> in) {
        const Autocast precision(in.parameters.embed, products);
        return evaluate(in.parameters, in.batch, job.size());
      });
  std::FILE* losses =
      speaks && !options.losses.empty() ? std::fopen(options.losses.c_str(), "w") : nullptr;

  StepInputOf<Lines> in;
  in.parameters = initial(shape, dtype, job.rank(), job.size());
  in.first_moment = zeros_of(in.parameters), in.second_moment = zeros_of(in.parameters);
  TrainingState state{in.parameters, in.first_moment, in.second_moment,
                      Experts{shape.experts / job.size() * job.rank(), shape.experts}};
  double& margin = state.margin;
  Checkpoints checkpoints(job, options.checkpoint, {.every = options.every, .keep = 2});
  const bool saves = !options.checkpoint.empty();
  if (saves) {
    const auto found = checkpoints.restore(state);
    if (!found) return found.error();
    if (*found && speaks)
      std::printf("goes on from step %lld, saved by %d ranks\n",
                  static_cast<long long>((*found)->step), (*found)->world_size);
  }
  for (int s = static_cast<int>(state.step) + 1; s <= options.steps; ++s) {
    in.batch =
        batch_of<Lines>(text.train, static_cast<std::size_t>(state.line), options.lines, job);
    in.rate = options.rate * std::sqrt(1 - std::pow(0.999, s)) / (1 - std::pow(0.9, s));
    auto out = train_step(std::move(in));
    if (!out) return out.error();
    in.parameters = out->parameters, in.first_moment = out->first_moment,
    in.second_moment = out->second_moment;
    state.step = s, state.line += options.lines;
    const double loss = out->measures.loss.array().at(0);
    margin = std::min(margin, out->measures.margin.array().at(0));
    if (losses) std::fprintf(losses, "%.17g\n", loss);
    if (speaks && (s % options.every == 0 || s == 1 || train_step.last_compiled()))
      std::printf("step %4d  loss %.4f nats per byte  experts hold %s of the rows  %s\n", s, loss,
                  load_text(out->measures.load.array()).c_str(), train_step.last_call().c_str());
    std::fflush(stdout);
    if (losses) std::fflush(losses);
    if (saves)
      if (auto saved = checkpoints.save(s, state); !saved) return saved.error();
  }
  if (losses) std::fclose(losses);
  if (saves)
    if (auto saved = checkpoints.save_last(state.step, state); !saved) return saved;

  double sum = 0, count = 0;
  const auto held_out = static_cast<std::size_t>(text.held_out.size());
  for (std::size_t first = 0; first < held_out; first += static_cast<std::size_t>(options.lines)) {
    const int lines =
        static_cast<int>(std::min(held_out - first, static_cast<std::size_t>(options.lines)));
    const auto out = test({in.parameters, batch_of<Lines>(text.held_out, first, lines, job)});
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
  app.add_option("--every", options.every, "Print, and save, every so many steps")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--rate", options.rate, "Learning rate of Adam")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--dtype", options.dtype,
                 "Of parameters and activations; bf16: products in bf16, parameters in f32")
      ->check(CLI::IsMember({"bf16", "f32", "f64"}))
      ->capture_default_str();
  app.add_flag("--packed", options.packed,
               "Lines one behind the other in place of padded to the longest");
  app.add_option("--device", options.device, "Where the steps run: this processor or NVIDIA GPUs")
      ->check(CLI::IsMember({"host", "cuda"}))
      ->capture_default_str();
  app.add_option(
      "--checkpoint", options.checkpoint,
      "Save parameters, moments and the place in the text to this folder, and go on from "
      "what is saved there");
  app.add_option("--losses", options.losses,
                 "Write the loss of each step to this file, all digits");
  // All ranks read the same options and files; one rank prints what is wrong with them.
  const bool first = rank_if_known() == 0;
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
  return (*job)->run([&] {
    return options.packed ? train<PackedBatch>(**job, options, text)
                          : train<Batch>(**job, options, text);
  });
}
