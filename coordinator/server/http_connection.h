// One connection of a browser or a scraper, without its socket: one request in, one answer or a
// stream of updates out, piece by piece as they are taken.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <lockstep/coordinator/server/http_answer.h>

namespace lockstep::coordinator {

/// One connection. One thread.
class HttpConnection {
 public:
  struct Surroundings {
    std::function<HttpDoor()> door;
    std::function<HttpAnswer(Resource)> content;
  };

  /// Returns a complaint for the log where somebody was turned away; else an empty text.
  [[nodiscard]] std::string take(std::span<const std::byte> bytes,
                                 const Surroundings& surroundings);
  /// The next piece; empty where nothing waits. At most kPieceBytes.
  [[nodiscard]] Bytes more();
  /// For those who follow the updates. One that has not begun to go out is replaced, so a slow
  /// reader holds two at most.
  void update(std::shared_ptr<const std::string> event);

  [[nodiscard]] bool answered() const { return answered_; }
  /// With what was asked for.
  [[nodiscard]] bool admitted() const { return admitted_; }
  [[nodiscard]] bool streams() const { return streams_; }
  /// Nothing will follow.
  [[nodiscard]] bool over() const { return answered_ && !streams_ && !now_; }

  static constexpr std::size_t kPieceBytes = 60 * 1024;

 private:
  void answer(HttpAnswer answer, bool head_only);
  HttpReader reader_;
  bool answered_ = false, admitted_ = false, streams_ = false;
  std::shared_ptr<const std::string> now_, next_;  // what goes out
  std::size_t sent_ = 0;                           // of now_
};

}  // namespace lockstep::coordinator
