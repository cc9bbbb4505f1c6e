#include <fmt/format.h>

#include <lockstep/worker/compile/run/control_run.h>
#include <lockstep/worker/compile/run/graph_collective.h>
#include <lockstep/worker/tensor/graph/control.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

/// The RunHost of a body's runs. Failures of the body stay on this rank unless all ranks run it
/// together.
class BodyHost final : public RunHost {
 public:
  /// `ends`: false for the body of a loop that may never end, whose steps do not count as progress.
  BodyHost(RunHost& outer, bool together, bool ends)
      : outer_(outer), together_(together), ends_(ends) {}
  Result<void> settle(const std::optional<LocalFailure>& mine) override {
    if (together_) return outer_.settle(mine);
    return mine ? Result<void>(mine->status) : Result<void>{};
  }
  [[nodiscard]] bool reaches_all() const override { return outer_.reaches_all(); }
  void poke() override { outer_.poke(); }
  void announce_step_size(std::int64_t elements) override {
    if (ends_) outer_.announce_step_size(elements);
  }
  collectives::Communicator* group(std::string_view name) override { return outer_.group(name); }
  [[nodiscard]] Rank rank_at(std::string_view group, Rank place) const override {
    return outer_.rank_at(group, place);
  }
  collectives::DeviceData* device_data(std::string_view name) override {
    return outer_.device_data(name);
  }
  Threads& threads() override { return outer_.threads(); }
  collectives::Watch* watch() override { return outer_.watch(); }

 private:
  RunHost& outer_;
  bool together_, ends_;
};

class ControlRun {
 public:
  ControlRun(const ControlCall& call, collectives::Communicator& communicator, RunHost& host)
      : call_(call),
        node_(call.graph.nodes[call.id]),
        communicator_(communicator),
        together_(runs_collectives(node_)),
        outer_(host),
        host_(host, together_, node_.op != Op::While) {
    const std::size_t first = node_.op == Op::Cond ? 1 : 0;
    for (std::size_t k = first; k < call.operands.size(); ++k)
      inputs_[operand_name(k - first)] = call.operands[k];
    const std::size_t before = node_.op == Op::Scan ? 1 : 0;
    for (std::size_t k = before; k < call.exprs.size(); ++k)
      set_symbol(node_.bodies[0]->symbols.at(k - before).source, call.exprs[k]);
  }

  Result<void> run() {
    switch (node_.op) {
      case Op::Scan:
        return scan();
      case Op::While:
        return loop();
      case Op::Cond: {
        auto way = goes_on(call_.operands[0]);
        return way ? once(*way ? 0 : 1) : way.error();
      }
      default:
        return once(0);
    }
  }

 private:
  using Arrays = std::vector<Array>;

  void set_symbol(const std::string& name, std::int64_t value) {
    Array number(DType::I64, {});
    *number.data_as<std::int64_t>() = value;
    inputs_[name] = std::move(number);
  }

  Result<Arrays> run_body(std::size_t body) {
    outer_.poke();
    return call_.run(body, inputs_, host_);
  }

  Result<void> once(std::size_t body) {
    const auto results = run_body(body);
    if (!results) return results.error();
    for (std::size_t k = 0; k < results->size(); ++k)
      if (auto placed = call_.place(k, 0, (*results)[k]); !placed) return placed;
    return {};
  }

  /// Makes the carried values, which are the first results of a trip, the first inputs of the next
  /// trip.
  void carry(Arrays& results) {
    for (std::size_t k = 0; k < carries(); ++k) inputs_[operand_name(k)] = std::move(results[k]);
  }
  Result<void> place_carries(std::size_t from, std::int64_t block) {
    for (std::size_t k = 0; k < carries(); ++k)
      if (auto placed = call_.place(from + k, block, inputs_[operand_name(k)]); !placed)
        return placed;
    return {};
  }
  [[nodiscard]] std::size_t carries() const { return static_cast<std::size_t>(node_.ints[0]); }

  Result<void> scan() {
    const std::int64_t trips = call_.exprs[0];
    const Graph& body = *node_.bodies[0];
    const std::size_t outputs = body.outputs.size();
    for (std::int64_t i = 0; i < trips; ++i) {
      const std::int64_t row = node_.ints[2] != 0 ? trips - 1 - i : i;
      if (auto placed = place_carries(outputs, row); !placed) return placed;
      set_symbol(body.symbols.back().source, row);
      auto results = run_body(0);
      if (!results) return results.error();
      for (std::size_t k = carries(); k < outputs; ++k)
        if (auto placed = call_.place(k, row, (*results)[k]); !placed) return placed;
      carry(*results);
    }
    return place_carries(0, 0);
  }

  Result<void> loop() {
    for (std::int64_t trips = 0;; ++trips) {
      const auto asked = run_body(0);
      if (!asked) return asked.error();
      const auto on = goes_on(asked->at(0));
      if (!on) return on.error();
      if (!*on) return place_carries(0, 0);
      if (trips == node_.ints[1]) return fail(too_many(trips));
      auto results = run_body(1);
      if (!results) return results.error();
      carry(*results);
    }
  }

  [[nodiscard]] Status too_many(std::int64_t trips) const {
    return {Code::RuntimeAssert,
            fmt::format("{}: its condition is still true after {} trips, the most that it may make",
                        collective_label(node_), trips)};
  }

  /// Fails the node; if all ranks run it together, also reports the failure in a status round.
  Result<void> fail(Status status) {
    if (together_)
      if (auto told = outer_.settle(LocalFailure{status, call_.id}); !told) return told;
    return status;
  }

  /// Returns the predicate. Fails on all ranks that run together if it differs between them.
  Result<bool> goes_on(const Array& predicate) {
    const bool mine = predicate.data_as<bool>()[0];
    if (!together_ || !call_.compares) return mine;
    auto places = lowest_of_each(mine);
    if (!places) return places.error();
    const auto [yes, no] = *places;
    if (yes == communicator_.size() || no == communicator_.size()) return mine;
    auto failed = fail(differ(yes, no));
    return failed ? Result<bool>(mine) : Result<bool>(failed.error());
  }

  /// Returns the lowest place of a rank whose predicate is true, and the lowest place of a rank
  /// whose predicate is false. If there is no such rank, the number of ranks stands in for its
  /// place.
  Result<std::pair<std::int64_t, std::int64_t>> lowest_of_each(bool mine) {
    const std::int64_t none = communicator_.size(), here = communicator_.rank().value;
    const std::int64_t places[] = {mine ? here : none, mine ? none : here};
    std::int64_t lowest[2] = {};
    const std::string label = "predicate of " + collective_label(node_);
    collectives::Collective over;
    over.kind = collectives::Collective::Kind::AllReduce;
    over.reduce = collectives::Reduce::Min;
    over.dtype = DType::I64;
    over.send = places;
    over.receive = lowest;
    over.rows = 2;
    over.label = label;
    if (auto done = communicator_.run(over); !done) return done.error();
    return std::pair{lowest[0], lowest[1]};
  }

  [[nodiscard]] Status differ(std::int64_t yes, std::int64_t no) const {
    const auto rank = [&](std::int64_t place) {
      return RankSet::of(outer_.rank_at("", Rank{static_cast<std::int32_t>(place)}));
    };
    return {Code::ConstraintViolation,
            fmt::format("{}: the predicate is true on {} and false on {}, and a body holds {}, to "
                        "which all ranks have to come; make it from what is the same on all of "
                        "them, as all_reduce(.., Reduce::Max) is",
                        collective_label(node_), rank(yes).phrase(), rank(no).phrase(),
                        first_meeting()),
            "the predicate",
            {{rank(yes), "true"}, {rank(no), "false"}}};
  }

  [[nodiscard]] std::string first_meeting() const {
    for (const auto& body : node_.bodies)
      for (const Node& node : body->nodes)
        if (runs_collectives(node) || node.op == Op::HostCall) return collective_label(node);
    return "a collective";
  }

  const ControlCall& call_;
  const Node& node_;
  collectives::Communicator& communicator_;
  bool together_;
  RunHost& outer_;
  BodyHost host_;
  Inputs inputs_;
};

}  // namespace

Result<void> run_control(const ControlCall& call, collectives::Communicator& communicator,
                         RunHost& host) {
  return ControlRun(call, communicator, host).run();
}

}  // namespace lockstep::worker
