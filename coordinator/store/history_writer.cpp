#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <signal.h>

#include <lockstep/coordinator/store/history_writer.h>

namespace lockstep::coordinator {
namespace {

constexpr std::chrono::seconds kTryAgain{1}, kEnd{1};
/// Maximum number of errors kept until errors() is called.
constexpr std::size_t kMostErrors = 16;

}  // namespace

struct HistoryWriter::Shared {
  const std::string directory;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::vector<RunNews>> batch;  // nullopt once it is written
  std::vector<std::string> errors;
  bool stop = false, over = false;
  bool failing = false;  // the last write failed

  explicit Shared(std::string where) : directory(std::move(where)) {}
  void add_error(const std::string& line) {
    const std::lock_guard lock(mutex);
    if (errors.size() < kMostErrors) errors.push_back(line);
  }
};

HistoryWriter::HistoryWriter(std::string directory)
    : shared_(std::make_shared<Shared>(std::move(directory))) {
  // The program's own threads handle signals.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    // The thread is detached, because a hanging write cannot be ended. It keeps `shared` alive.
    std::thread([shared = shared_] {
      work(*shared);
      const std::lock_guard lock(shared->mutex);
      shared->over = true;
      shared->changed.notify_all();
    }).detach();
  } catch (const std::system_error& error) {
    shared_->over = true;
    shared_->add_error(std::string("the history is not written: ") + error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

HistoryWriter::~HistoryWriter() {
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, kEnd, [this] { return shared_->over; });
}

bool HistoryWriter::idle() const {
  const std::lock_guard lock(shared_->mutex);
  return !shared_->batch && !shared_->over;
}

bool HistoryWriter::writes() const {
  const std::lock_guard lock(shared_->mutex);
  return !shared_->failing && !shared_->over;
}

bool HistoryWriter::wait_idle(Duration patience) const {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, patience,
                                   [this] { return !shared_->batch || shared_->over; });
}

void HistoryWriter::give(std::vector<RunNews> news) {
  const std::lock_guard lock(shared_->mutex);
  shared_->batch = std::move(news);
  shared_->changed.notify_all();
}

std::vector<std::string> HistoryWriter::errors() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->errors, {});
}

void HistoryWriter::work(Shared& shared) {
  std::unique_ptr<HistoryStore> store;
  const auto write = [&](const std::vector<RunNews>& news) -> Result<void> {
    if (store == nullptr) {
      auto opened =
          HistoryStore::open({.directory = shared.directory, .report = [&](const Status& status) {
                                shared.add_error(status.message);
                              }});
      if (!opened) return opened.error();
      store = std::move(*opened);
    }
    return store->write(news);
  };
  std::string error;  // the last error, while it lasts
  std::unique_lock lock(shared.mutex);
  while (!shared.stop) {
    if (!shared.batch) {
      shared.changed.wait(lock);
      continue;
    }
    const std::vector<RunNews>& batch = *shared.batch;  // stays: give() requires idle()
    lock.unlock();
    const auto written = write(batch);
    if (!written && error != written.error().message)
      shared.add_error("the history is not written: " + written.error().message);
    error = written ? std::string() : written.error().message;
    lock.lock();
    shared.failing = !written;
    if (written) shared.batch.reset();
    shared.changed.notify_all();
    if (!written) shared.changed.wait_for(lock, kTryAgain, [&] { return shared.stop; });
  }
}

}  // namespace lockstep::coordinator
