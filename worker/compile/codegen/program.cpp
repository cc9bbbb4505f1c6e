#include <fmt/format.h>

#include <lockstep/worker/compile/codegen/program.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

constexpr std::string_view kArtifactFormat = "lockstep.artifact/3";

std::string_view step_name(Step::Kind kind) {
  switch (kind) {
    case Step::Kind::Kernel:
      return "kernel";
    case Step::Kind::Matmul:
      return "matmul";
    case Step::Kind::SegmentMatmul:
      return "segment_matmul";
    case Step::Kind::SegmentOuter:
      return "segment_outer";
    case Step::Kind::Attention:
      return "attention";
    case Step::Kind::Collective:
      return "collective";
    case Step::Kind::HostSync:
      return "host_sync";
    case Step::Kind::HostCall:
      return "host_call";
    case Step::Kind::Assert:
      return "assert";
    case Step::Kind::IndexCheck:
      return "index_check";
    case Step::Kind::CountsCheck:
      return "counts_check";
    case Step::Kind::SplitsCheck:
      return "splits_check";
    case Step::Kind::SizesExchange:
      return "sizes_exchange";
    case Step::Kind::SplitsExchange:
      return "splits_exchange";
    case Step::Kind::Settle:
      return "settle";
    case Step::Kind::Control:
      return "control";
  }
  return "?";
}

std::string_view buffer_name(Buffer::Kind kind) {
  return kind == Buffer::Kind::Input ? "in" : kind == Buffer::Kind::Output ? "out" : "arena";
}

}  // namespace

shapes::Fingerprint Program::unit_key(int unit, const shapes::Fingerprint& toolchain) const {
  return shapes::FingerprintBuilder()
      .add(kArtifactFormat)
      .add(units[static_cast<std::size_t>(unit)])
      .add(toolchain)
      .finish();
}

std::string Program::text() const {
  std::string out = fmt::format(
      "program {}: {} nodes compiled, {} interpreted, {} steps, {} kernels in {} units\n",
      graph.name, nodes_compiled, nodes_interpreted, steps.size(), kernels.size(), units.size());
  for (std::size_t i = 0; i < buffers.size(); ++i)
    out += fmt::format("  @{}: {} {} of {}, value of %{}, steps {}-{}\n", i,
                       buffer_name(buffers[i].kind), dtype_name(buffers[i].dtype),
                       exprs.expr(buffers[i].elements).text(), buffers[i].node, buffers[i].first,
                       buffers[i].last);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    out += fmt::format("  {}: {}", i, step_name(step.kind));
    if (step.kind == Step::Kind::Kernel || step.launch) out += " " + kernels[step.kernel].name;
    for (std::uint32_t at : step.kernels) out += " " + kernels[at].name;
    for (BufferId at : step.buffers) out += fmt::format(" @{}", at);
    for (ExprSlot at : step.args) out += fmt::format(" ({})", exprs.expr(at).text());
    if (step.launch)
      out += fmt::format(" on {} blocks of {}", exprs.expr(step.launch->blocks).text(),
                         step.launch->threads);
    if (step.launch && step.launch->merged)
      out += fmt::format(" merging {}", exprs.expr(*step.launch->merged).text());
    if (step.sharing)
      out += fmt::format(" shared by {} of {} over {}", step.sharing->unit,
                         exprs.expr(step.sharing->iterations).text(),
                         exprs.expr(step.sharing->elements).text());
    if (step.chain)
      out += fmt::format(" chain of {} over {}", step.chain->length,
                         exprs.expr(step.chain->rows).text());
    if (step.deferred()) out += fmt::format(" to outcome {}", step.outcome);
    if (step.carries_status) out += " with status";
    for (std::uint32_t k : step.results) out += fmt::format(" result {}", k);
    out += step.transpose_a || step.transpose_b
               ? fmt::format(" transposed {}{}\n", step.transpose_a ? "a" : "",
                             step.transpose_b ? "b" : "")
               : "\n";
  }
  for (const Program& body : bodies) out += "body " + body.text();
  for (std::size_t i = 0; i < units.size(); ++i) out += fmt::format("unit {}:\n{}", i, units[i]);
  return out;
}

}  // namespace lockstep::worker
