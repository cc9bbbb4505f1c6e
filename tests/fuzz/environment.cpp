#include "environment.h"

#include <fmt/format.h>

#include <lockstep/worker/agree/exchange/hints.h>

namespace lockstep::fuzz {
namespace {

using worker::Consistency;
using worker::TraceReport;

constexpr std::size_t kNodes = 6;
constexpr int kSmall = 3;  // what a branch and a question compare the first symbol with

/// The first symbol that a trace may branch on.
std::optional<std::size_t> first_backed(const worker::Decision& decision) {
  for (std::size_t i = 0; i < decision.symbols.size(); ++i)
    if (!decision.symbols[i].unbacked) return i;
  return std::nullopt;
}

}  // namespace

Result<TraceReport> Environment::trace(const worker::Decision& decision) {
  TraceReport report;
  if (struck_.trace) {
    happened_ = Code::TraceError;
    report.failure =
        Status{Code::TraceError, fmt::format("the function fails on {}", rank_), "", {}};
    // Before or after its questions to the group.
    if (*struck_.trace % 2 == 0) return report;
  }
  report.graph = decision.digest();
  report.collectives = {1, 1};
  for (std::size_t node = 0; node < kNodes; ++node)
    report.prefixes.push_back({report.graph.high, report.graph.low + node});
  if (group_.branches)
    if (const auto first = first_backed(decision)) {
      const auto small =
          shapes::less(shapes::Expr::symbol(decision.trace_symbols()[*first]), kSmall);
      const bool taken = decision.symbols[*first].hint < kSmall;
      report.guards = {{taken ? small : small.negated(), {"step.cpp", 7}}};
      report.graph.high += taken ? 1 : 2;
    }
  const auto symbols = decision.trace_symbols();
  if (group_.pads && !symbols.empty() && !symbols.back().unbacked)
    report.uniform = {{shapes::Expr::symbol(symbols.back()), "", "all_reduce", {"step.cpp", 8}}};
  if (group_.asks)
    if (auto asked = ask(decision, report); !asked) return asked.error();
  if (struck_.graph && !report.failure) {
    const auto own = static_cast<std::uint64_t>(1000 + rank_);
    if (group_.members.size() > 1 && group_.config.consistency != Consistency::SharedSizes)
      happened_ = Code::GraphDivergence;
    report.graph.low ^= own;
    report.collectives.low ^= own;
    for (std::size_t node = *struck_.graph % kNodes; node < kNodes; ++node)
      report.prefixes[node].low ^= own;
  }
  graph_ = report.graph;
  return report;
}

Result<void> Environment::ask(const worker::Decision& decision, TraceReport& report) {
  const auto first = first_backed(decision);
  if (!first) return {};
  const auto small = shapes::less(shapes::Expr::symbol(decision.trace_symbols()[*first]), kSmall);
  worker::RoundKey key = agreement_.key();
  key.kind = worker::RoundKey::Kind::Verify;
  key.attempt = 1;
  const auto answer =
      agreement_.driver().any_rank(key, worker::symbol_values(decision, seen_)[*first] < kSmall);
  if (!answer) return answer.error();
  report.group_guards = {{small, worker::GroupGuard::Over::Any, *answer, {"step.cpp", 9}}};
  report.graph.high += *answer ? 4 : 8;
  return {};
}

std::string Environment::explain(std::size_t node) {
  return fmt::format("node {} of rank {}", node, rank_);
}

// As in a frame: the ranks tell each other whether the build went well before they load.
std::optional<Status> Environment::compile() {
  std::optional<Status> failure;
  if (struck_.compile) {
    const bool rejected = *struck_.compile % 2 == 0;
    happened_ = rejected ? Code::CompileError : Code::Environment;
    failure = Status{*happened_, fmt::format("no build on {}", rank_), "", {}};
  }
  worker::RoundKey key = agreement_.key();
  key.kind = worker::RoundKey::Kind::Commit;
  if (struck_.ignores_commit) communicator_.ignore(key.hash());
  if (group_.builds && workshop_ != nullptr) return build(failure);
  key.attempt = 1;
  const auto any = agreement_.driver().any_rank(key, failure.has_value());
  if (!any) return any.error();
  return failure;
}

std::optional<Status> Environment::build(const std::optional<Status>& rejected) {
  communicator_.corrupt(struck_.corrupt);
  Workpiece piece =
      workshop_->build(group_, struck_.step, agreement_, agreement_.key().frame, graph_, rejected);
  communicator_.corrupt(false);
  if (!happened_) happened_ = piece.happened;
  objects_ = piece.objects;
  toolchain_key_ = piece.toolchain_key;
  return std::move(piece.failure);
}

}  // namespace lockstep::fuzz
