#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <signal.h>

#include <lockstep/coordinator/client/client.h>
#include <lockstep/coordinator/client/publisher.h>

namespace lockstep::coordinator {

SlotReport report_of(const Board& board, Rank rank, Instant now) {
  RankState state = board.state(rank);
  SlotReport report;
  report.waiting = state.waiting;
  report.finished = state.finished;
  report.phase = state.phase;
  report.operation = state.operation;
  report.begun = state.begun;
  report.group = state.group;
  report.ordinal = state.ordinal;
  report.group_name = std::move(state.group_name);
  report.event = std::move(state.event);
  report.since_progress = std::max(now - state.progress, Duration{0});
  report.lease_left = std::max(state.lease - now, Duration{0});
  for (const Board::Begun& begun : board.begun(rank))
    report.groups.push_back({begun.group, begun.operations});
  return report;
}

/// Used by the publisher's thread only, except stop(), last_word(), atomic members, and members
/// under the mutex.
struct Publisher::Thread {
  Thread(const Board& the_board, PublisherOptions the_options)
      : board(the_board), options(std::move(the_options)), pause(options.first_pause) {}

  void run();
  void attempt();
  void speak();
  void pass_on();
  void heard(const Message& message);
  void hear_verdict(const JobVerdict& verdict);
  void ended(const Status& why);
  void refused(const Refused& refused);
  [[nodiscard]] bool worth_telling(const SlotReport& now) const;
  void drive();
  void wait(Duration time);
  [[nodiscard]] bool unanswered() const;
  void say_goodbye();
  void stop();
  void last_word(const Status& verdict);
  void say_ending();
  void end_last_word();

  const Board& board;
  PublisherOptions options;
  SystemClock clock;
  std::atomic<bool> joined{false};
  std::unique_ptr<Client> client;
  bool over = false, was_refused = false;  // this attempt has ended; the coordinator refused it
  Duration pause;
  Instant attempted{0};
  std::string said;  // the reason last passed to say(); empty: the coordinator can be reached
  std::uint64_t looks = 0, looks_waiting = 0;
  SlotReport last_look;
  Instant waits_since{0};  // since when the rank waits in the operation of the last look
  bool configured = false;
  std::optional<SlotReport> told;
  bool last_report_in_long_wait =
      false;  // the last report was about a wait that lasted for two looks
  Instant told_at{0};
  std::mutex mutex;
  bool stopping = false;           // under mutex
  Client* to_interrupt = nullptr;  // under mutex
  std::condition_variable wake;
  std::atomic<bool> ends{false};  // this rank ends its job by its own verdict
  std::optional<Ending> ending;   // under mutex; set until it is sent
  bool noted = false;             // under mutex
  std::condition_variable was_noted;
  std::thread thread;
};

/// True if the rank has changed its phase or finished since the last report, has left a wait that
/// was reported, or waits in the same operation as at the previous look. Shorter waits occur in
/// every step and are not reported.
bool Publisher::Thread::worth_telling(const SlotReport& now) const {
  if (now.phase != told->phase || now.finished != told->finished) return true;
  const bool in_told_wait = now.waiting && told->waiting && now.begun == told->begun;
  if (last_report_in_long_wait) return !in_told_wait;
  return now.waiting && last_look.waiting && now.begun == last_look.begun;
}

/// Sends the configuration once, then some of the program's events, the oldest first.
void Publisher::Thread::pass_on() {
  constexpr int kEventsPerLook = 16;
  if (!options.feed || !joined.load() || !client->idle()) return;
  if (!configured)
    if (auto configuration = options.feed->configuration(); !configuration.text.empty()) {
      client->send(std::move(configuration));
      configured = true;
    }
  for (int i = 0; i < kEventsPerLook; ++i) {
    auto event = options.feed->take();
    if (!event) return;
    client->send(*std::move(event));
  }
}

/// Obeys the verdict only if the rank has waited for a while and still waits, so that no job that
/// makes progress is ended.
void Publisher::Thread::hear_verdict(const JobVerdict& verdict) {
  constexpr std::chrono::seconds kLongEnough{1};
  const RankState state = board.state(options.identity.rank);
  if (!options.obey || ends.load() || !state.waiting || !last_look.waiting ||
      state.begun != last_look.begun || clock.now() - waits_since < kLongEnough)
    return;
  options.obey({verdict.code, verdict.message, {}, {}});
}

/// Called when the coordinator has noted the last word, or the connection has ended.
void Publisher::Thread::end_last_word() {
  const std::lock_guard lock(mutex);
  noted = true;
  was_noted.notify_all();
}

void Publisher::Thread::heard(const Message& message) {
  if (const auto* why = std::get_if<Refused>(&message)) return refused(*why);
  if (const auto* verdict = std::get_if<JobVerdict>(&message)) return hear_verdict(*verdict);
  if (const auto* wanted = std::get_if<GraphWanted>(&message)) {
    auto graph = options.feed ? options.feed->graph(wanted->graph) : std::nullopt;
    if (graph) client->send(*std::move(graph));
    return;
  }
  if (std::holds_alternative<Noted>(message)) end_last_word();
  if (!std::holds_alternative<Joined>(message)) return;
  if (!said.empty()) options.say("The coordinator is there again.");
  said.clear();
  pause = options.first_pause;
  joined.store(true);
}

void Publisher::Thread::say_ending() {
  if (!joined.load()) return;
  const std::lock_guard lock(mutex);
  if (ending) client->send(*std::exchange(ending, std::nullopt));
}

/// Takes a look, and sends a report if one is due and the previous one has been sent.
void Publisher::Thread::speak() {
  const Instant now = clock.now();
  SlotReport report = report_of(board, options.identity.rank, now);
  report.looks = ++looks;
  report.looks_waiting = looks_waiting += report.waiting ? 1 : 0;
  if (!report.waiting || !last_look.waiting || report.begun != last_look.begun) waits_since = now;
  const bool due = !told || now - told_at >= options.every ||
                   (now - told_at >= 2 * options.look && worth_telling(report));
  pass_on();
  if (joined.load() && due && client->idle()) {
    if (options.feed) report.counters = options.feed->counters();
    client->send(report);
    last_report_in_long_wait =
        report.waiting && last_look.waiting && report.begun == last_look.begun;
    told = report;
    told_at = now;
  }
  last_look = std::move(report);
}

void Publisher::Thread::ended(const Status& why) {
  over = true;
  joined.store(false);
  end_last_word();
  if (was_refused) return;
  if (said.empty()) options.say(why.message + " The job goes on without it.");
  said = why.message;
}

void Publisher::Thread::refused(const Refused& refused) {
  was_refused = true;
  if (said != refused.message) options.say("The coordinator refuses this rank: " + refused.message);
  said = refused.message;
}

void Publisher::Thread::attempt() {
  over = was_refused = configured = false;
  told.reset();
  attempted = clock.now();
  client = std::make_unique<Client>(
      options.coordinator, options.secret,
      Client::Events{.established = [this] { client->send(Join{options.identity}); },
                     .message = [this](const Message& message) { heard(message); },
                     .ended = [this](const Status& why) { ended(why); }});
}

/// Runs the client until the next look is due, or stop() is called.
void Publisher::Thread::drive() {
  const auto interruptible = [this](Client* which) {
    const std::lock_guard lock(mutex);
    to_interrupt = which;
    return !stopping;
  };
  if (interruptible(client.get())) client->run_for(options.look);
  (void)interruptible(nullptr);
}

/// Sleeps for `time`, or until stop() or last_word() is called.
void Publisher::Thread::wait(Duration time) {
  std::unique_lock lock(mutex);
  wake.wait_for(lock, time, [this] { return stopping || ending; });
}

void Publisher::Thread::say_goodbye() {
  if (!joined.load()) return;
  const Instant until = clock.now() + options.goodbye;
  while (!over && !client->idle() && clock.now() < until) client->run_for(options.look / 10);
  if (over || !client->idle()) return;
  pass_on();
  SlotReport report = report_of(board, options.identity.rank, clock.now());
  if (options.feed) report.counters = options.feed->counters();
  report.looks = looks;
  report.looks_waiting = looks_waiting;
  client->send(report);
  while (!over && !client->idle() && clock.now() < until) client->run_for(options.look / 10);
}

/// True if the coordinator has not answered for `patience`. Only this time limit notices a machine
/// that is down, which answers neither a connection attempt nor data.
bool Publisher::Thread::unanswered() const {
  const Instant since = joined.load() ? told_at : attempted;
  return !over && (!joined.load() || !client->idle()) && clock.now() - since > options.patience;
}

void Publisher::Thread::run() {
  const auto stopped = [this] {
    const std::lock_guard lock(mutex);
    return stopping;
  };
  Instant next_attempt{0};
  while (!stopped()) {
    if (!client && clock.now() >= next_attempt) attempt();
    if (client) {
      const Instant began = clock.now();
      drive();
      if (unanswered())
        ended({Code::Stuck,
               fmt::format("The coordinator at {} does not answer.", options.coordinator.text())});
      if (!over) wait(options.look - (clock.now() - began));
    } else {
      wait(options.look);
    }
    if (client && over) {
      client.reset();
      next_attempt = clock.now() + pause;
      pause = std::min(pause * 2, options.last_pause);
    }
    speak();
    say_ending();
  }
  say_goodbye();
}

void Publisher::Thread::last_word(const Status& verdict) {
  constexpr std::chrono::seconds kLong{2};
  if (std::this_thread::get_id() == thread.get_id()) return;
  ends.store(true);
  std::unique_lock lock(mutex);
  if (!joined.load()) return;
  noted = false;
  ending = Ending{verdict.code, verdict.message};
  if (to_interrupt != nullptr) to_interrupt->interrupt();
  wake.notify_all();
  was_noted.wait_for(lock, kLong, [this] { return noted; });
}

void Publisher::Thread::stop() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
    if (to_interrupt != nullptr) to_interrupt->interrupt();
  }
  wake.notify_all();
  if (thread.joinable()) thread.join();
}

Publisher::Publisher(std::unique_ptr<Thread> thread) : thread_(std::move(thread)) {}
Publisher::~Publisher() { thread_->stop(); }
bool Publisher::joined() const { return thread_->joined.load(); }
void Publisher::last_word(const Status& verdict) { thread_->last_word(verdict); }

Result<std::unique_ptr<Publisher>> Publisher::start(const Board& board, PublisherOptions options) {
  std::unique_ptr<Publisher> publisher(
      new Publisher(std::make_unique<Thread>(board, std::move(options))));
  Thread& thread = *publisher->thread_;
  // The program's own threads handle signals.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::optional<Status> failed;
  try {
    thread.thread = std::thread([&thread] { thread.run(); });
  } catch (const std::system_error& error) {
    failed = environment_error(fmt::format("The publisher cannot start: {}.", error.what()));
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed) return *failed;
  return publisher;
}

}  // namespace lockstep::coordinator
