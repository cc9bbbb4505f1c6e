// One SQLite file in a private directory: opened, checked, brought to this program's schema, and
// replaced where it is damaged. The stores stand on it; it knows nothing of what they keep.
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

/// One row of a query, within its callback. A column of another type reads as zero or empty.
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

/// What a transaction reads and writes with. After its first failure it does nothing more; the
/// Database sees to the failure at the end.
class Transaction {
 public:
  /// What is bound to a parameter; monostate: null.
  using Value =
      std::variant<std::monostate, std::int64_t, std::string_view, std::span<const std::byte>>;
  using EachRow = std::function<void(const Row&)>;

  explicit Transaction(DatabaseConnection& connection) : connection_(connection) {}
  /// One statement, with its parameters ?1, ?2, … in order.
  void run(std::string_view sql, std::initializer_list<Value> values = {},
           const EachRow& each = {});
  /// What was read cannot have been written by this program: the file is damaged.
  void refuse(const std::string& why);
  [[nodiscard]] bool ok() const { return failure_ == 0; }
  /// Of SQLite; 0: none.
  [[nodiscard]] int failure() const { return failure_; }
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  DatabaseConnection& connection_;
  int failure_ = 0;
  std::string why_;
};

/// Any number of processes use one file at a time, each transaction whole or not there, also after
/// kill -9 at any moment. One thread per object; not to be taken through a fork.
class Database {
 public:
  struct Content {
    std::string_view noun;      // "history"
    std::string_view danger;    // "what is in it steers what gets compiled"
    std::string_view recovery;  // "a new one is begun"
    /// What brings a file of schema version v to v + 1: one or more statements each, never changed
    /// once released. As many as the version that this program writes.
    std::span<const char* const> migrations;
  };
  enum class Access : std::uint8_t {
    Write,
    Read,  // makes, changes and sets aside nothing
  };
  /// How a transaction becomes whole: a log beside the file, or the pages before it. The log needs
  /// memory that all processes share, so it is for one host alone.
  enum class Journal : std::uint8_t { ByFileSystem, Log, Pages };
  struct Options {
    std::string directory;  // PrivateDirectory::open()
    std::string file;       // its name there
    Content content;
    Access access = Access::Write;
    /// How long to wait for other processes that write.
    Duration patience = std::chrono::seconds(5);
    /// Told of a file that was set aside.
    std::function<void(const Status&)> report;
    Journal journal = Journal::ByFileSystem;
  };

  /// A file that is damaged or no database of lockstep is renamed to NAME.bad and a new one begun.
  /// Errors: Environment (the directory or the file cannot be used; with Access::Read also: there
  /// is none, or it is damaged), Version (its schema is newer than this program's; it is left as
  /// it is).
  [[nodiscard]] static Result<std::unique_ptr<Database>> open(Options options);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Done as one transaction. Where the file turns out to be damaged it is set aside and the work
  /// done again on a new one, so it must be repeatable, and what it read counts only after success.
  using Work = std::function<void(Transaction&)>;
  /// Errors as open().
  [[nodiscard]] Result<void> read(const Work& work);
  /// After an error nothing has changed. Errors as open().
  [[nodiscard]] Result<void> write(const Work& work);
  /// Waits for nobody; false: another process is writing, and nothing was done.
  [[nodiscard]] Result<bool> write_at_once(const Work& work);

  /// How many files this object has had open: one more where the file was replaced.
  [[nodiscard]] unsigned files() const { return files_; }
  /// PrivateDirectory::identity()
  [[nodiscard]] const std::string& identity() const { return directory_.identity(); }

 private:
  Database(Options options, PrivateDirectory directory);
  /// What keeps a file from being used.
  struct Trouble {
    enum class Kind : std::uint8_t { Damaged, Refused } kind = Kind::Refused;
    std::string why;  // of what is damaged
    Status status;    // of what is refused
  };
  [[nodiscard]] Result<void> connect();
  [[nodiscard]] std::optional<Trouble> open_file();
  [[nodiscard]] std::optional<Trouble> find_or_make();
  [[nodiscard]] std::optional<Trouble> examine();
  [[nodiscard]] std::optional<Trouble> set_up();
  [[nodiscard]] std::optional<Trouble> migrate();
  [[nodiscard]] std::optional<Trouble> trouble_of(int failure, const std::string& why,
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
  std::uint64_t inode_ = 0;  // of the file that is open
  unsigned files_ = 0;
};

}  // namespace lockstep::coordinator
