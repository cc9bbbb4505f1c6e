// A controller: one process that has many workers run what it traces. The workers are a job of
// their own (`lockstep worker`, under mpirun or over TCP) and hold the tensors; the controller has
// handles.
//
// Traced functions compute with the operations of lockstep/worker/job.h.
//
//   auto controller = Controller::connect("workers.address");
//   if (!controller) return Job::report(controller.error());
//   auto step = *(*controller)->frame<Input, Output>("step", [](Input in) { return Output{...}; });
//   auto x = *(*controller)->put({rows_of_worker_0, rows_of_worker_1});
//   auto out = step({x});                       // returns at once, maybe before the workers begin
//   auto loss = (*controller)->fetch(out->loss);  // waits; returns worker 0's tensor
//
// If a call fails on one worker, it fails on all, and the controller's next action returns the
// error. Calls that use a missing result fail with the same error.
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

/// A tensor that the workers hold from an earlier controller.
struct KeptTensor {
  std::string label;  // as given to put(), or "loss of call 7 of step"
  Tensor tensor;
};

/// One per process and job of workers. Takes one call at a time (of itself, its frames and its
/// programs), from any thread. A call while another thread's call is under way is BadInput, and has
/// no effect. Tensors may be destroyed on any thread. Tensors and frames of a destroyed controller
/// cannot be used. If it is destroyed during a call of another thread, the process prints an error
/// and ends. Errors of all calls: the failure of an earlier command, once; Stuck if worker 0 was
/// silent for a deadline; from the end of the workers' job on, the job's error (RankLost, Stuck,
/// …).
class Controller {
 public:
  /// `where`: the address file of `lockstep worker`, or an address such as "10.0.0.1:4700" with the
  /// secret of LOCKSTEP_TOKEN or LOCKSTEP_TOKEN_FILE. Empty: the address file in the cache
  /// directory. Errors: Environment (no file, nobody listens), Version (another secret or version),
  /// BadInput (not an address; the workers have another controller), Stuck.
  [[nodiscard]] static Result<std::unique_ptr<Controller>> connect(
      const std::string& where, const ControllerOptions& options = {});
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  /// Takes the turn for a call; calls of other threads are refused while it lasts. Errors: BadInput
  /// (Turns::take).
  [[nodiscard]] Result<Turn> enter(std::string_view call) { return session_->enter(call); }
  [[nodiscard]] int workers() const { return static_cast<int>(session_->held().workers); }

  /// Puts the same tensor on every worker.
  [[nodiscard]] Result<Tensor> put(const Array& tensor, const std::string& label = "a tensor");
  /// Puts `each[i]` on worker i. Errors: BadInput (not as many tensors as workers; the tensors
  /// differ in dtype or number of dims).
  [[nodiscard]] Result<Tensor> put(const std::vector<Array>& each,
                                   const std::string& label = "a tensor");
  /// Has each worker read tensors of a safetensors file: "{rank}" in `path` is the worker's number.
  /// Waits until they are read.
  [[nodiscard]] Result<std::map<std::string, Tensor>> read(const std::string& path,
                                                           const std::vector<std::string>& names);
  /// Returns the tensor of one worker. Waits for the commands that make it.
  [[nodiscard]] Result<Array> fetch(const Tensor& tensor, int worker = 0);
  /// Returns the tensor's sizes on every worker. Waits for the commands that make it.
  [[nodiscard]] Result<std::vector<std::vector<std::int64_t>>> sizes(const Tensor& tensor);

  /// Makes a frame: a function that is traced here and runs on the workers, as Job::frame. Inputs
  /// are structs of tensors of the workers, tensors of this process (put on all workers for this
  /// call), keys and numbers; outputs are structs of tensors. A frame of this name from an earlier
  /// controller keeps its compiled entries: its function must be the same.
  template <class In, class Out>
  [[nodiscard]] Result<RemoteFrame<In, Out>> frame(const std::string& name,
                                                   std::function<Out(In)> body) {
    const auto turn = session_->enter(name);
    if (!turn) return turn.error();
    const auto number = frame_number(name);
    if (!number) return number.error();
    return RemoteFrame<In, Out>(*session_, name, *number, std::move(body));
  }
  /// Makes a frame of a saved program. Reads the file here and sends it to the workers once.
  [[nodiscard]] Result<RemoteProgram> load(const std::string& path);

  /// Returns the tensors that the workers held when this controller connected; later calls return
  /// none. Tensors that the caller does not keep are dropped.
  [[nodiscard]] std::vector<KeptTensor> take_over();
  /// Waits until the workers have done all commands.
  [[nodiscard]] Result<void> settle();
  /// Ends the workers once they have done all commands.
  [[nodiscard]] Result<void> finish();

 private:
  explicit Controller(std::unique_ptr<ControllerSession> session);
  [[nodiscard]] Result<FrameNumber> frame_number(const std::string& name);
  [[nodiscard]] Result<Handle> remote(const Tensor& tensor) const;
  [[nodiscard]] Tensor remote_tensor(Handle handle, DType dtype) const {
    return remote_array(handle, dtype, session_->dropped());
  }

  std::unique_ptr<ControllerSession> session_;
  std::vector<HeldFrame> frames_;  // by number; includes those of earlier controllers
  std::vector<bool> taken_;        // by number; true: this controller uses it
  std::mutex taking_over_;
  std::vector<KeptTensor> kept_;
};

}  // namespace lockstep::worker
