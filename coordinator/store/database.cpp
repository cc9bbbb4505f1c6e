// How SQLite is used, and why.
//
// On a file system of this host alone, the database has a write-ahead log, and a commit does not
// wait for the disk (synchronous=NORMAL). kill -9 loses no committed data, because the kernel has
// the bytes; a power loss may lose the last commits but not the file. That is enough, because a job
// can do without these files. On other file systems (NFS and the like) the log's shared memory does
// not work. There the database has a rollback journal instead, and a commit waits for the disk
// (FULL), because only the order of writes keeps the file intact.
//
// Another process may rename or delete a file at any time, so each transaction first checks that
// its file still has its name. The last process that closes a file would delete the log by name.
// SQLite checks the file's name before this deletion, but the file may be renamed in between.
// PERSIST_WAL therefore keeps the log.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/coordinator/store/database.h>
#include <lockstep/coordinator/store/database_connection.h>
#include <lockstep/coordinator/store/file_system.h>

namespace lockstep::coordinator {
namespace {

constexpr std::int64_t kApplication = 0x6c6f636b;  // "lock"
/// Limit above all schema versions; a larger number means damage.
constexpr std::int64_t kMostVersions = 1000;
constexpr int kLongestValue = 16 << 20;  // bytes
constexpr int kMostSetAside = 9;
constexpr off_t kSmallest = 512;  // minimum bytes of a database that is not empty
constexpr std::chrono::milliseconds kPause{5};

/// True if the failure shows that the file is damaged or has another schema. All other failures
/// have causes outside the file.
bool damage(int failure) {
  // The file or its log is shorter than its header says.
  if (failure == SQLITE_IOERR_SHORT_READ) return true;
  switch (failure & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_ERROR:  // a missing table or column
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
      return true;
    default:
      return false;
  }
}

bool busy(int failure) {
  return (failure & 0xff) == SQLITE_BUSY || (failure & 0xff) == SQLITE_LOCKED;
}

/// Held while a new file gets its name or a damaged file loses it, so that no process renames
/// another process's new file. If the file system has no such lock, or the holder of the lock is
/// stopped, the new file is protected only by the check of the inode just before the renaming.
class NameLock {
 public:
  NameLock(int directory, Duration patience)
      : fd_(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    for (Duration waited{0};
         ::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK && waited < patience;
         waited += kPause)
      std::this_thread::sleep_for(kPause);
  }
  ~NameLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  NameLock(const NameLock&) = delete;
  NameLock& operator=(const NameLock&) = delete;

 private:
  int fd_;
};

}  // namespace

Database::Database(Options options, PrivateDirectory directory)
    : options_(std::move(options)), directory_(std::move(directory)) {}
Database::~Database() = default;

Result<std::unique_ptr<Database>> Database::open(Options options) {
  const Content& content = options.content;
  if (options.access == Access::Read && ::access(options.directory.c_str(), F_OK) != 0)
    return environment_error(fmt::format("cannot read the {} {}/{}: there is none", content.noun,
                                         options.directory, options.file));
  auto directory = PrivateDirectory::open(options.directory, content.noun, content.danger);
  if (!directory) return directory.error();
  std::unique_ptr<Database> database(new Database(std::move(options), std::move(*directory)));
  if (auto connected = database->connect(); !connected) return connected.error();
  return database;
}

Status Database::refusal(std::string_view what, const std::string& why) const {
  return environment_error(
      fmt::format("cannot {} the {} {}: {}", what, options_.content.noun, path(), why));
}

/// What a failure of SQLite means for the file.
std::optional<Database::Unusable> Database::failure_of(int failure, const std::string& why,
                                                       std::string_view what) const {
  if (failure == SQLITE_OK) return std::nullopt;
  // True if the file system allows writing, but the file's header forbids it: the header was
  // altered.
  const bool forbids_itself =
      (failure & 0xff) == SQLITE_READONLY &&
      ::faccessat(directory_.fd(), options_.file.c_str(), W_OK, AT_EACCESS) == 0;
  if (damage(failure) || forbids_itself) return Unusable{Unusable::Kind::Damaged, why, {}};
  if (busy(failure))
    return Unusable{
        Unusable::Kind::Refused,
        {},
        refusal(what, fmt::format("another process has been writing to it for {} s",
                                  std::chrono::duration<double>(options_.patience).count()))};
  std::string cause = why;
  const int kind = failure & 0xff;
  if ((kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN) && connection_->handle != nullptr)
    if (const int error = sqlite3_system_errno(connection_->handle); error != 0)
      cause += fmt::format(" ({})", std::strerror(error));
  return Unusable{Unusable::Kind::Refused,
                  {},
                  refusal(what, cause + "; see to the disk, or choose another directory with "
                                        "LOCKSTEP_CACHE_DIR")};
}

/// Opens the file, or makes a new one if it is missing or damaged.
Result<void> Database::connect() {
  std::string why = "other processes keep replacing it";
  for (int attempt = 0; attempt < 4; ++attempt) {
    connection_.reset();
    const auto unusable = open_file();
    if (!unusable) {
      ++files_;
      return {};
    }
    if (connection_ != nullptr && !named()) continue;
    if (unusable->kind == Unusable::Kind::Refused) {
      connection_.reset();
      return unusable->status;
    }
    why = unusable->why;
    if (auto aside = set_aside(why); !aside) return aside;
  }
  connection_.reset();
  return refusal("open", why);
}

std::optional<Database::Unusable> Database::find_or_make() {
  const NameLock lock(directory_.fd(), options_.patience);
  struct stat info {};
  const bool there =
      ::fstatat(directory_.fd(), options_.file.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  const auto refused = [&](std::string_view what, const std::string& why) {
    return Unusable{Unusable::Kind::Refused, {}, refusal(what, why)};
  };
  if (!there && errno != ENOENT) return refused("examine", std::strerror(errno));
  if (!there) {
    if (options_.access == Access::Read) return refused("read", "there is none");
    // Creates the file here, because SQLite would create it with the permissions of the umask.
    const int fd = ::openat(directory_.fd(), options_.file.c_str(),
                            O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return refused("make", std::strerror(errno));
    (void)::fstat(fd, &info);
    ::close(fd);
  }
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid())
    return refused("use", "it is not a file of this user");
  if ((info.st_mode & 077) != 0)
    return refused("use", fmt::format("it is open to other users (mode {:o}); {}, so run chmod 600 "
                                      "on it",
                                      info.st_mode & 0777u, options_.content.danger));
  inode_ = info.st_ino;
  // SQLite would treat such a file as an empty database.
  if (info.st_size > 0 && info.st_size < kSmallest)
    return Unusable{Unusable::Kind::Damaged, "it is cut short", {}};
  return std::nullopt;
}

std::optional<Database::Unusable> Database::open_file() {
  if (auto unusable = find_or_make()) return unusable;
  std::error_code ignored;
  auto real = std::filesystem::canonical(options_.directory, ignored);
  if (ignored) real = options_.directory;
  connection_ = std::make_unique<DatabaseConnection>();
  const int failure = sqlite3_open_v2(
      (real / options_.file).c_str(), &connection_->handle,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE,
      nullptr);
  if (!named()) return Unusable{};  // connect() tries again
  if (failure != SQLITE_OK) return failure_of(failure, sqlite3_errstr(failure), "open");
  if (auto unusable = examine()) return unusable;
  if (options_.access == Access::Read) return std::nullopt;
  if (auto unusable = set_up()) return unusable;
  return migrate();
}

/// Checks the file's application, version and structure. Changes nothing.
std::optional<Database::Unusable> Database::examine() {
  sqlite3* const handle = connection_->handle;
  int keep = 1;
  sqlite3_file_control(handle, "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
  sqlite3_busy_timeout(handle, static_cast<int>(options_.patience / std::chrono::milliseconds(1)));
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, kLongestValue);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // Only a program that knows the schema may merge the log into the file.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  std::int64_t version = 0, application = 0, objects = 0;
  std::string found;
  Transaction look(*connection_);
  look.run("PRAGMA cell_size_check = ON");
  look.run("BEGIN");  // one snapshot, because another process may be creating the database
  look.run("PRAGMA user_version", {}, [&](const Row& row) { version = row.integer(0); });
  look.run("PRAGMA application_id", {}, [&](const Row& row) { application = row.integer(0); });
  look.run("SELECT count(*) FROM sqlite_schema", {},
           [&](const Row& row) { objects = row.integer(0); });
  look.run("COMMIT");
  if (!look.ok()) return failure_of(look.failure(), look.why(), "open");
  const bool fresh = version == 0 && application == 0 && objects == 0;
  if (!fresh && (application != kApplication || version < 1 || version > kMostVersions))
    return Unusable{Unusable::Kind::Damaged, "it is no database of lockstep", {}};
  if (version > known())
    return Unusable{
        Unusable::Kind::Refused,
        {},
        {Code::Version,
         fmt::format("the {} {} is of version {}, which a later lockstep wrote, and this one knows "
                     "up to {}; it was left as it is: use that lockstep, or another directory with "
                     "LOCKSTEP_CACHE_DIR",
                     options_.content.noun, path(), version, known())}};
  if (options_.access == Access::Read && version < known())
    return Unusable{Unusable::Kind::Refused, {}, refusal("read", "it is not of this version yet")};
  look.run("PRAGMA quick_check(1)", {}, [&](const Row& row) { found = row.text(0); });
  if (!look.ok()) return failure_of(look.failure(), look.why(), "check");
  if (found != "ok") return Unusable{Unusable::Kind::Damaged, found, {}};
  return std::nullopt;
}

std::optional<Database::Unusable> Database::set_up() {
  const bool log = options_.journal == Journal::ByFileSystem
                       ? on_local_file_system(options_.directory)
                       : options_.journal == Journal::Log;
  // SQLite does not wait for other processes when it changes the journal mode.
  for (Duration waited{0};; waited += kPause) {
    std::string mode;
    Transaction change(*connection_);
    change.run(log ? "PRAGMA journal_mode = WAL" : "PRAGMA journal_mode = DELETE", {},
               [&](const Row& row) { mode = row.text(0); });
    if (busy(change.failure()) && waited < options_.patience) {
      std::this_thread::sleep_for(kPause);
      continue;
    }
    if (!change.ok()) return failure_of(change.failure(), change.why(), "set up");
    if (!log && mode == "wal")
      return Unusable{Unusable::Kind::Refused,
                      {},
                      refusal("set up",
                              "it has a log, which does not work on this file system, and "
                              "another process uses it")};
    change.run(mode == "wal" ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL");
    change.run("PRAGMA journal_size_limit = 1048576");
    return failure_of(change.failure(), change.why(), "set up");
  }
}

std::optional<Database::Unusable> Database::migrate() {
  Transaction work(*connection_);
  std::int64_t version = 0;
  const auto look = [&] {
    work.run("PRAGMA user_version", {}, [&](const Row& row) { version = row.integer(0); });
  };
  look();
  if (work.ok() && version < known()) {
    work.run("BEGIN IMMEDIATE");
    look();  // another process may have migrated the file meanwhile
    for (; work.ok() && version < known(); ++version) {
      char* message = nullptr;
      const char* sql = options_.content.migrations[static_cast<std::size_t>(version)];
      const int failure = sqlite3_exec(connection_->handle, sql, nullptr, nullptr, &message);
      const std::string why = message != nullptr ? message : "";
      sqlite3_free(message);
      if (failure == SQLITE_OK) continue;
      sqlite3_exec(connection_->handle, "ROLLBACK", nullptr, nullptr, nullptr);
      return failure_of(failure, why, "set up");
    }
    work.run(fmt::format("PRAGMA user_version = {}", known()));
    work.run(fmt::format("PRAGMA application_id = {}", kApplication));
    work.run("COMMIT");
  }
  if (!work.ok()) {
    const auto unusable = failure_of(work.failure(), work.why(), "set up");
    sqlite3_exec(connection_->handle, "ROLLBACK", nullptr, nullptr, nullptr);
    return unusable;
  }
  sqlite3_db_config(connection_->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  return std::nullopt;
}

/// True if the open file still has its name.
bool Database::named() const {
  struct stat info {};
  return ::fstatat(directory_.fd(), options_.file.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
         info.st_ino == inode_;
}

/// Returns false if another process is writing and `patience` is zero.
Result<bool> Database::transact(std::string_view begin, const Work& work, Duration patience) {
  std::string why;
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (connection_ == nullptr || !named())
      if (auto connected = connect(); !connected) return connected.error();
    sqlite3_busy_timeout(connection_->handle,
                         static_cast<int>(patience / std::chrono::milliseconds(1)));
    Transaction transaction(*connection_);
    transaction.run(begin);
    if (transaction.ok()) work(transaction);
    transaction.run("COMMIT");
    if (transaction.ok()) return true;
    const auto unusable = failure_of(transaction.failure(), transaction.why(), "use");
    sqlite3_exec(connection_->handle, "ROLLBACK", nullptr, nullptr, nullptr);
    if (busy(transaction.failure()) && patience == Duration{0}) return false;
    if (!named()) continue;
    if (unusable->kind == Unusable::Kind::Refused) return unusable->status;
    why = unusable->why;
    sqlite3_db_config(connection_->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    if (auto aside = set_aside(why); !aside) return aside.error();
    connection_.reset();
  }
  return refusal("use", why.empty() ? "other processes keep replacing it"
                                    : "a new one is damaged at once (" + why + ")");
}

Result<void> Database::read(const Work& work) {
  const auto done = transact("BEGIN", work, options_.patience);
  return done ? Result<void>{} : done.error();
}

Result<void> Database::write(const Work& work) {
  const auto done = transact("BEGIN IMMEDIATE", work, options_.patience);
  return done ? Result<void>{} : done.error();
}

Result<bool> Database::write_at_once(const Work& work) {
  return transact("BEGIN IMMEDIATE", work, Duration{0});
}

/// Renames the file and its log, unless another process has done that already.
Result<void> Database::set_aside(const std::string& why) {
  if (options_.access == Access::Read)
    return refusal("read",
                   fmt::format("it is damaged ({}); who next writes to it sets it aside", why));
  const NameLock lock(directory_.fd(), options_.patience);
  const int at = directory_.fd();
  if (!named()) return {};
  std::string aside = options_.file + ".bad";
  bool taken = ::faccessat(at, aside.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
  for (int n = 2; taken && n <= kMostSetAside; ++n) {
    aside = fmt::format("{}.bad{}", options_.file, n);
    taken = ::faccessat(at, aside.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
  }
  // Rename the main file first: a write-ahead log without it is ignored.
  if (::renameat(at, options_.file.c_str(), at, aside.c_str()) != 0)
    return refusal("set aside", fmt::format("{} (it is damaged: {})", std::strerror(errno), why));
  for (const char* tail : {"-wal", "-journal", "-shm"})
    if (::renameat(at, (options_.file + tail).c_str(), at, (aside + tail).c_str()) != 0)
      ::unlinkat(at, (aside + tail).c_str(), 0);
  if (options_.report)
    options_.report(environment_error(fmt::format(
        "the {} {} is damaged ({}); it was renamed to {}{} and {}", options_.content.noun, path(),
        why, aside, taken ? ", in place of an earlier one," : "", options_.content.recovery)));
  return {};
}

}  // namespace lockstep::coordinator
