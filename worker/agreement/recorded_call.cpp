#include <lockstep/worker/agreement/recorded_call.h>

namespace lockstep::worker {
namespace {

/// Steps that write down what they answer.
class RecordedSteps final : public CallSteps {
 public:
  RecordedSteps(Recorder& recorder, CallSteps& steps) : recorder_(recorder), steps_(steps) {}

  Result<TraceReport> trace(const Decision& decision) override {
    auto report = steps_.trace(decision);
    if (report) recorder_.traced(*report);
    return report;
  }
  std::string explain(std::size_t node) override {
    std::string text = steps_.explain(node);
    recorder_.explained(text);
    return text;
  }
  std::optional<Status> compile() override {
    auto failure = steps_.compile();
    recorder_.compiled(failure);
    return failure;
  }

 private:
  Recorder& recorder_;
  CallSteps& steps_;
};

}  // namespace

CallOutcome recorded_call(Recorder* recorder, CallDriver& driver, const RoundKey& key, Frame& frame,
                          Observation observation, Standing standing, CallSteps& steps) {
  if (recorder == nullptr)
    return driver.call(key, frame, std::move(observation), std::move(standing), steps);
  recorder->call(driver.placed(key), observation, standing);
  RecordedSteps recorded(*recorder, steps);
  CallOutcome outcome =
      driver.call(key, frame, std::move(observation), std::move(standing), recorded,
                  [&](const Action& action) { recorder->action(action); });
  recorder->ended(outcome);
  return outcome;
}

CallOutcome recorded_take(Recorder* recorder, CallDriver& driver, const Observation& observation,
                          CallSteps& steps) {
  if (recorder == nullptr) return driver.take(steps);
  recorder->call(driver.ahead_key(), observation, {});
  RecordedSteps recorded(*recorder, steps);
  CallOutcome outcome =
      driver.take(recorded, [&](const Action& action) { recorder->action(action); });
  recorder->ended(outcome);
  return outcome;
}

}  // namespace lockstep::worker
