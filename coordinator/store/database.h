// One SQLite file in a private directory: opens it, checks it, migrates it to this program's
// schema, and replaces it if it is damaged. The stores use it; it knows nothing about their
// content.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/clock.h>
#include <lockstep/coordinator/store/private_directory.h>

struct sqlite3_stmt;

namespace lockstep::coordinator {

struct DatabaseConnection;

/// One row of a query, valid during the callback. A column of another type reads as zero or empty.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  [[nodiscard]] bool null(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] std::string text(int column) const;
  [[nodiscard]] Bytes blob(int column) const;

 private:
  sqlite3_stmt* statement_;
};

/// The statements of one transaction. After its first failure it does nothing more; the Database
/// handles the failure at the end.
class Transaction {
 public:
  /// The value of a parameter; monostate is SQL's null.
  using Value =
      std::variant<std::monostate, std::int64_t, std::string_view, std::span<const std::byte>>;
  using EachRow = std::function<void(const Row&)>;

  explicit Transaction(DatabaseConnection& connection) : connection_(connection) {}
  /// Runs one statement. `values` are its parameters ?1, ?2, …; `each` is called for each row.
  void run(std::string_view sql, std::initializer_list<Value> values = {},
           const EachRow& each = {});
  /// Declares the file damaged, because this program cannot have written a value that was read.
  void refuse(const std::string& why);
  [[nodiscard]] bool ok() const { return failure_ == 0; }
  /// SQLite's error code; 0: no failure.
  [[nodiscard]] int failure() const { return failure_; }
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  DatabaseConnection& connection_;
  int failure_ = 0;
  std::string why_;
};

/// Any number of processes may use one file at the same time. A transaction is complete or absent,
/// also after kill -9 at any moment. One thread per object; an object must not be used after
/// fork().
class Database {
 public:
  struct Content {
    std::string_view noun;      // "history"
    std::string_view danger;    // "what is in it steers what gets compiled"
    std::string_view recovery;  // "a new one is begun"
    /// Element v has the statements that migrate a file from schema version v to v + 1. They are
    /// never changed once released. The number of elements is the version that this program writes.
    std::span<const char* const> migrations;
  };
  enum class Access : std::uint8_t {
    Write,
    Read,  // does not create, change or rename any file
  };
  /// How transactions are made atomic: a write-ahead log, or a rollback journal of the old pages.
  /// The log needs memory that all processes share, so it works on one host only.
  enum class Journal : std::uint8_t { ByFileSystem, Log, Pages };
  struct Options {
    std::string directory;  // PrivateDirectory::open()
    std::string file;       // the file's name in `directory`
    Content content;
    Access access = Access::Write;
    /// Longest wait for processes that are writing.
    Duration patience = std::chrono::seconds(5);
    /// Receives the error when a damaged file is renamed.
    std::function<void(const Status&)> report;
    Journal journal = Journal::ByFileSystem;
  };

  /// A file that is damaged, or not a database of lockstep, is renamed to NAME.bad and a new file
  /// is begun. Errors: Environment (the directory or the file cannot be used; with Access::Read
  /// also a missing or damaged file), Version (the schema is newer than this program's; the file
  /// stays as it is).
  [[nodiscard]] static Result<std::unique_ptr<Database>> open(Options options);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// The work of one transaction. If the file turns out to be damaged, it is renamed and the work
  /// is repeated on a new file. So the work must be repeatable, and its results count only after
  /// success.
  using Work = std::function<void(Transaction&)>;
  /// Errors: those of open().
  [[nodiscard]] Result<void> read(const Work& work);
  /// After an error nothing has changed. Errors: those of open().
  [[nodiscard]] Result<void> write(const Work& work);
  /// Does what write() does, but does not wait. False: another process is writing, and nothing was
  /// done.
  [[nodiscard]] Result<bool> write_at_once(const Work& work);

  /// Number of files that this object has opened: 1, plus one for each replacement.
  [[nodiscard]] unsigned files() const { return files_; }
  /// PrivateDirectory::identity()
  [[nodiscard]] const std::string& identity() const { return directory_.identity(); }

 private:
  Database(Options options, PrivateDirectory directory);
  /// The reason why a file cannot be used.
  struct Unusable {
    enum class Kind : std::uint8_t { Damaged, Refused } kind = Kind::Refused;
    std::string why;  // Damaged: what is wrong
    Status status;    // Refused: the error
  };
  [[nodiscard]] Result<void> connect();
  [[nodiscard]] std::optional<Unusable> open_file();
  [[nodiscard]] std::optional<Unusable> find_or_make();
  [[nodiscard]] std::optional<Unusable> examine();
  [[nodiscard]] std::optional<Unusable> set_up();
  [[nodiscard]] std::optional<Unusable> migrate();
  [[nodiscard]] std::optional<Unusable> failure_of(int failure, const std::string& why,
                                                   std::string_view what) const;
  [[nodiscard]] Result<bool> transact(std::string_view begin, const Work& work, Duration patience);
  [[nodiscard]] Result<void> set_aside(const std::string& why);
  [[nodiscard]] bool named() const;
  [[nodiscard]] int known() const { return static_cast<int>(options_.content.migrations.size()); }
  [[nodiscard]] std::string path() const { return options_.directory + "/" + options_.file; }
  [[nodiscard]] Status refusal(std::string_view what, const std::string& why) const;

  Options options_;
  PrivateDirectory directory_;
  std::unique_ptr<DatabaseConnection> connection_;
  std::uint64_t inode_ = 0;  // inode of the open file
  unsigned files_ = 0;
};

}  // namespace lockstep::coordinator
