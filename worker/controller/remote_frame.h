// A frame of a controller, with the types of its inputs and outputs. Called like the function that
// it was made from.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/controller/frame_tracing.h>
#include <lockstep/worker/controller/remote_calls.h>

namespace lockstep::worker {

/// Borrows the controller.
template <class In, class Out>
class RemoteFrame {
 public:
  RemoteFrame(ControllerSession& session, const std::string& name, FrameNumber frame,
              std::function<Out(In)> body)
      : state_(std::make_shared<State>(session, name, frame, std::move(body))) {
    session.trace_by(frame,
                     [state = state_](const TraceRequest& asked) { return state->answer(asked); });
  }

  /// Returns handles at once, before the call has run. The first call with a new structure of
  /// inputs (names, kinds, bools) waits for its end, because its trace determines the outputs.
  /// Tensors that the caller moves are freed on the workers during the run. Errors: BadInput
  /// (inputs that frames of a controller do not take); those of Controller.
  [[nodiscard]] Result<Out> operator()(In in) {
    State& state = *state_;
    const auto turn = state.calls.session().enter(state.calls.name());
    if (!turn) return turn.error();
    RemoteInputs inputs(state.calls.session().dropped());
    FieldWalk<RemoteInputs>(inputs).walk(in);
    if (auto ready = state.calls.prepare(inputs); !ready) return ready.error();
    const std::string structure = inputs.structure();
    if (auto known = state.known(inputs.key(), in); !known) return known.error();
    if (const auto found = state.made.find(structure); found != state.made.end()) {
      auto outputs = state.calls.issue(std::move(inputs), found->second.shape);
      if (!outputs) return outputs.error();
      return filled(found->second.out, *outputs);
    }
    state.latest.reset();
    const auto ended = state.calls.run(std::move(inputs));
    if (!ended) return ended.error();
    const auto made = state.made_by(ended->called);
    if (!made) return made.error();
    auto outputs = state.calls.outputs(*ended, (*made)->shape);
    if (!outputs) return outputs.error();
    Out out = filled((*made)->out, *outputs);
    state.made.insert_or_assign(structure, **made);
    return out;
  }

 private:
  struct Made {
    Out out;  // as traced
    OutputShape shape;
  };
  struct Example {
    In in;
    InputTree tree;
  };
  struct State {
    State(ControllerSession& session, const std::string& name, FrameNumber frame,
          std::function<Out(In)> its_body)
        : calls(session, name, frame), body(std::move(its_body)) {}

    /// Makes sure that inputs with this key have an example.
    Result<void> known(const std::string& key, In& in) {
      if (examples.contains(key)) return {};
      Example example{in, {}};
      Observation unused;
      if (auto flat = flatten(example.in, example.tree, unused); !flat) return flat.error();
      examples.emplace(key, std::move(example));
      return {};
    }
    MadeTrace trace(const TraceRequest& asked, const WantedTrace& wanted) {
      const auto example = examples.find(wanted.key);
      if (example == examples.end())
        return {Status{Code::TraceError,
                       fmt::format("frame {}: the workers ask for the trace of inputs that this "
                                   "controller has not given",
                                   calls.name())},
                {}};
      std::optional<Out> out;
      MadeTrace made_trace = trace_for(calls.name(), asked, wanted, [&](Trace& trace) {
        out = body(traced_like(example->second.in, example->second.tree, trace));
        RemoteOutputs checked;
        FieldWalk<RemoteOutputs>(checked).walk(*out);
        add_outputs(*out, trace);
      });
      if (made_trace.graph) latest = Made{*std::move(out), output_shape(*made_trace.graph)};
      return made_trace;
    }
    TraceAnswer answer(const TraceRequest& asked) {
      const auto wanted = wanted_trace(asked);
      if (!wanted) return {asked.number, wanted.error(), {}, {}};
      MadeTrace now = trace(asked, *wanted);
      // If the outputs' names have changed, later calls wait for their end again.
      if (now.graph)
        std::erase_if(made, [&](const auto& known) {
          return known.second.shape.names != latest->shape.names;
        });
      return answer_with(calls.name(), asked, *wanted, std::move(now));
    }
    /// Returns the outputs of an ended call. If an earlier controller traced the entry that it ran,
    /// traces the function again and requires the same graph.
    Result<const Made*> made_by(const Called& called) {
      if (!called.entry && latest) return &*latest;
      if (!called.entry) return internal_error("the workers have run what nobody has traced");
      if (const auto found = entries.find(*called.entry); found != entries.end())
        return &found->second;
      if (!latest && called.traced) {
        const auto wanted = wanted_trace(*called.traced);
        if (!wanted) return wanted.error();
        const Result<Graph> graph = trace(*called.traced, *wanted).graph;
        if (!graph) return graph.error();
        if (graph->fingerprint() != called.graph)
          return Status{Code::TraceError,
                        fmt::format("frame {}: the function of this controller is another than "
                                    "that which an earlier one has compiled; give it another name",
                                    calls.name())};
      }
      if (!latest) return internal_error("the workers do not say how an entry was traced");
      return &entries.insert_or_assign(*called.entry, *latest).first->second;
    }

    RemoteCalls calls;
    std::function<Out(In)> body;
    std::map<std::string, Example> examples;  // by inputs_key()
    std::map<std::string, Made> made;         // by RemoteInputs::structure()
    std::map<int, Made> entries;              // by number of the entry; filled by made_by()
    std::optional<Made> latest;               // the latest trace
  };
  static Out filled(const Out& like, std::span<const Array> outputs) {
    Out copy = like;
    RemoteFiller filler(outputs);
    FieldWalk<RemoteFiller>(filler).walk(copy);
    return copy;
  }

  std::shared_ptr<State> state_;
};

}  // namespace lockstep::worker
