#include "compiled_body.h"

#include <string>
#include <utility>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/toolchain/host_toolchain.h>
#include <lockstep/worker/compile/toolchain/shared_build.h>

namespace lockstep::bench {

using namespace worker;  // NOLINT: what it times is theirs

/// Nothing to send, nobody to settle with.
class CompiledBody::Alone final : public collectives::Communicator, public RunHost {
 public:
  [[nodiscard]] Rank rank() const override { return {}; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] std::string name() const override { return "alone"; }
  void start(collectives::Round&) override {}
  [[nodiscard]] Result<void> start(const collectives::Collective&) override { return {}; }
  using Communicator::run;
  [[nodiscard]] Result<void> run(const collectives::Collective&) override { return {}; }
  [[nodiscard]] Result<bool> poll() override { return true; }
  [[nodiscard]] Result<void> wait() override { return {}; }
  [[nodiscard]] Result<void> settle(const std::optional<LocalFailure>&) override { return {}; }
  Threads& threads() override { return *threads_; }

  std::unique_ptr<Threads> threads_ = std::make_unique<Threads>();
};

CompiledBody::~CompiledBody() = default;

Result<std::unique_ptr<CompiledBody>> CompiledBody::make(std::vector<Array> inputs,
                                                         const Body& body, bool counted) {
  std::unique_ptr<CompiledBody> out(new CompiledBody);
  out->alone_ = std::make_unique<Alone>();
  Decision decision;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    SourceDecision source;
    source.spec = {name, Kind::Tensor, inputs[i].dtype(),
                   static_cast<int>(inputs[i].sizes().size())};
    source.dims.push_back({true, i, 0});
    for (std::size_t d = 1; d < inputs[i].sizes().size(); ++d)
      source.dims.push_back({false, 0, inputs[i].sizes()[d]});
    decision.sources.push_back(source);
    decision.symbols.push_back({name + ".size(0)", false, i, inputs[i].sizes()[0], false});
    out->inputs_[name] = std::move(inputs[i]);
  }
  TraceSetup setup{"bench", decision};
  setup.peers_may_differ = counted;
  const auto graph = trace(setup, [&](Trace& trace) {
    std::vector<Tensor> x;
    for (std::size_t i = 0; i < decision.sources.size(); ++i) x.push_back(trace.tensor_input(i));
    trace.output("y", body(x));
  });
  if (!graph) return graph.error();
  auto program = generate(*graph);
  if (!program) return program.error();
  auto toolchain = HostToolchain::open({});
  if (!toolchain) return toolchain.error();
  std::vector<Bytes> units;
  for (const std::string& text : program->units) {
    auto unit = (*toolchain)->build(text);
    if (!unit) return unit.error();
    units.push_back(*std::move(unit));
  }
  out->steps_ = program->steps.size();
  auto executable = Executable::load(*std::move(program), units, out->clock_);
  if (!executable) return executable.error();
  out->executable_ = *std::move(executable);
  return out;
}

void CompiledBody::share(int threads) { alone_->threads_ = std::make_unique<Threads>(threads); }

std::size_t CompiledBody::bytes() const { return executable_->bytes(); }

Result<std::vector<Array>> CompiledBody::run() {
  return executable_->run(inputs_, *alone_, *alone_);
}

}  // namespace lockstep::bench
