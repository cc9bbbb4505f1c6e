// Worker 0's side of its conversation with the controller, without sockets: commands in their
// order, the answers to questions within a call, and how long the workers have been without a
// controller.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include <lockstep/worker/controller/workers/lead_server.h>

namespace lockstep::worker {

/// One thread.
class Lead {
 public:
  /// `patience`: how long workers are without a controller before their job ends.
  Lead(std::shared_ptr<LeadServer> server, Duration patience)
      : server_(std::move(server)), patience_(patience), alone_since_(clock_.now()) {}

  /// What the controller has asked for; waits so long for the first command. A controller that has
  /// come is greeted by greet(), in order with the commands.
  struct Next {
    std::vector<LeadServer::Given> commands;  // of one controller
    bool came = false;                        // and then another controller came
  };
  [[nodiscard]] Next next(Duration wait);
  /// The end of all that Next told of.
  void done();
  void greet(Held held);
  /// To the controller that Next was of.
  void send(const Reply& reply) { server_->send(controller_, reply); }
  /// The answer to the question for a trace with this number, as it came. nullopt: the controller
  /// has left, or has not answered for so long.
  [[nodiscard]] std::optional<Bytes> trace_answer(std::uint64_t number, Duration wait);
  /// Why the job is over; nullopt: it is not.
  [[nodiscard]] std::optional<Status> given_up() const;

 private:
  void collect(Duration wait);

  SystemClock clock_;
  std::shared_ptr<LeadServer> server_;
  Duration patience_;
  std::deque<LeadServer::Event> events_;
  std::uint64_t controller_ = 0, coming_ = 0;  // numbers of controllers; 0: none
  std::uint64_t taken_ = 0, done_ = 0;         // commands of the controller
  bool left_ = false;                          // the latest one has left; it was there
  bool gone_ = false;                          // the one whose commands are being done
  std::string why_left_;
  std::optional<Instant> alone_since_;  // nullopt: there is a controller
};

}  // namespace lockstep::worker
