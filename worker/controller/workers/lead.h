// Worker 0's side of its conversation with the controller, without sockets: commands in order,
// answers to questions within a call, and the time that the workers have been without a controller.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include <lockstep/worker/controller/workers/lead_server.h>

namespace lockstep::worker {

/// Single-threaded.
class Lead {
 public:
  /// `patience`: longest time without a controller; then the workers' job ends.
  Lead(std::shared_ptr<LeadServer> server, Duration patience)
      : server_(std::move(server)), patience_(patience), alone_since_(clock_.now()) {}

  /// Returns the controller's commands; waits at most `wait` for the first. If `came` is true,
  /// greet() must answer the new controller once these commands are done.
  struct Next {
    std::vector<LeadServer::Given> commands;  // all of one controller
    bool came = false;                        // a new controller has connected after the commands
  };
  [[nodiscard]] Next next(Duration wait);
  /// Reports that all commands of the last Next are done.
  void done();
  void greet(Held held);
  /// Sends to the controller whose commands are being done.
  void send(const Reply& reply) { server_->send(controller_, reply); }
  /// Waits at most `wait` for the answer to the trace request of this number, and returns its
  /// bytes. nullopt: the controller has left, or has not answered in time.
  [[nodiscard]] std::optional<Bytes> trace_answer(std::uint64_t number, Duration wait);
  /// Why the job is over; nullopt if it is not.
  [[nodiscard]] std::optional<Status> given_up() const;

 private:
  void collect(Duration wait);

  SystemClock clock_;
  std::shared_ptr<LeadServer> server_;
  Duration patience_;
  std::deque<LeadServer::Event> events_;
  std::uint64_t controller_ = 0, coming_ = 0;  // numbers of the greeted controller and of the one
                                               // to be greeted; 0: none
  std::uint64_t taken_ = 0, done_ = 0;         // commands in the last Next, and done so far
  bool left_ = false;                          // the latest controller has left
  bool gone_ = false;                          // controller_ has left
  std::string why_left_;
  std::optional<Instant> alone_since_;  // nullopt while there is a controller
};

}  // namespace lockstep::worker
