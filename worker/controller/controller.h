// A controller: one process that has many workers run what it traces. The workers are a job of
// their own (`lockstep worker`, under mpirun or over TCP), with tensors that stay there; the
// controller has handles.
//
// Functions compute with what lockstep/worker/job.h has.
//
//   auto controller = Controller::connect("workers.address");
//   if (!controller) return Job::report(controller.error());
//   auto step = *(*controller)->frame<Input, Output>("step", [](Input in) { return Output{...}; });
//   auto x = *(*controller)->put({rows_of_worker_0, rows_of_worker_1});
//   auto out = step({x});                       // at once: the workers may not have begun
//   auto loss = (*controller)->fetch(out->loss);  // waits; worker 0's
//
// What fails on one worker fails on all of them, and is the error of the next thing that the
// controller does; calls that use what was not made fail with the same words.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/worker/controller/controller_session.h>
#include <lockstep/worker/controller/remote_frame.h>
#include <lockstep/worker/controller/remote_program.h>

namespace lockstep::worker {

/// A tensor that the workers hold already, from an earlier controller.
struct KeptTensor {
  std::string label;  // as it was put, or "loss of call 7 of step"
  Tensor tensor;
};

/// One per process and job of workers. It takes one call at a time, of its own, its frames' and its
/// programs', from any thread: one that comes while a call of another thread is under way is
/// BadInput, and has touched nothing. Tensors go on any thread. Tensors and frames of a controller
/// that is gone are of no use; where it goes while a call of another thread is under way, the
/// process ends with that error. Errors of all calls: those of an earlier command, once; Stuck
/// where worker 0 is not heard of for a deadline; and how the workers' job has ended, from then on
/// (RankLost, Stuck, …), for which there is one sentence.
class Controller {
 public:
  /// `where`: the address file of `lockstep worker`, or an address such as "10.0.0.1:4700", for
  /// which the secret is that of LOCKSTEP_TOKEN or LOCKSTEP_TOKEN_FILE. Empty: the address file in
  /// the cache directory. Errors: Environment (no file, nobody listens), Version (another secret or
  /// version), BadInput (no address; the workers have another controller), Stuck.
  [[nodiscard]] static Result<std::unique_ptr<Controller>> connect(
      const std::string& where, const ControllerOptions& options = {});
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  /// The turn of a call; another thread's are refused as long as it lasts. Errors: BadInput
  /// (Turns::take).
  [[nodiscard]] Result<Turn> enter(std::string_view call) { return session_->enter(call); }
  [[nodiscard]] int workers() const { return static_cast<int>(session_->held().workers); }

  /// The same tensor on every worker.
  [[nodiscard]] Result<Tensor> put(const Array& tensor, const std::string& label = "a tensor");
  /// One for each worker. Errors: BadInput (not one for each, other dtypes or dims).
  [[nodiscard]] Result<Tensor> put(const std::vector<Array>& each,
                                   const std::string& label = "a tensor");
  /// Tensors of a safetensors file that each worker reads: "{rank}" in `path` is its number. Waits
  /// for them.
  [[nodiscard]] Result<std::map<std::string, Tensor>> read(const std::string& path,
                                                           const std::vector<std::string>& names);
  /// The tensor of one worker. Waits for all that makes it.
  [[nodiscard]] Result<Array> fetch(const Tensor& tensor, int worker = 0);
  /// Its sizes on every worker. Waits for all that makes it.
  [[nodiscard]] Result<std::vector<std::vector<std::int64_t>>> sizes(const Tensor& tensor);

  /// A frame: a function that is traced here and runs on the workers, as Job::frame. Inputs are
  /// structs of tensors of the workers, of this process (put on all workers for this call), keys
  /// and numbers; outputs are structs of tensors. A frame of this name that an earlier controller
  /// made goes on with what was compiled: its function has to be the same.
  template <class In, class Out>
  [[nodiscard]] Result<RemoteFrame<In, Out>> frame(const std::string& name,
                                                   std::function<Out(In)> body) {
    const auto turn = session_->enter(name);
    if (!turn) return turn.error();
    const auto number = frame_number(name);
    if (!number) return number.error();
    return RemoteFrame<In, Out>(*session_, name, *number, std::move(body));
  }
  /// A frame of a saved program. The file is read here and sent to the workers once.
  [[nodiscard]] Result<RemoteProgram> load(const std::string& path);

  /// What the workers held when this controller came: once. What is not kept of it is dropped.
  [[nodiscard]] std::vector<KeptTensor> take_over();
  /// Waits until the workers have done all that they were told.
  [[nodiscard]] Result<void> settle();
  /// Ends the workers, once they have done all that they were told.
  [[nodiscard]] Result<void> finish();

 private:
  explicit Controller(std::unique_ptr<ControllerSession> session);
  [[nodiscard]] Result<FrameNumber> frame_number(const std::string& name);
  [[nodiscard]] Result<Handle> remote(const Tensor& tensor) const;
  [[nodiscard]] Tensor remote_tensor(Handle handle, DType dtype) const {
    return remote_array(handle, dtype, session_->dropped());
  }

  std::unique_ptr<ControllerSession> session_;
  std::vector<HeldFrame> frames_;  // by number, this controller's among them
  std::vector<bool> taken_;        // this controller has it
  std::mutex taking_over_;
  std::vector<KeptTensor> kept_;
};

}  // namespace lockstep::worker
