#include <lockstep/worker/simulator/input/stored_calls.h>

namespace lockstep::worker::simulator {

std::shared_ptr<const ScenarioCall> StoredCalls::call(std::size_t index) const {
  {
    const std::lock_guard lock(mutex_);
    if (error_) return std::make_shared<const ScenarioCall>();
    if (last_ && last_index_ == index) return last_;
  }
  auto made = read(index);
  const std::lock_guard lock(mutex_);
  if (!made) {
    if (!error_) error_ = made.error();
    return std::make_shared<const ScenarioCall>();
  }
  auto out = std::make_shared<const ScenarioCall>(*std::move(made));
  last_ = out;
  last_index_ = index;
  return out;
}

std::optional<Status> StoredCalls::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace lockstep::worker::simulator
