// A connection of SQLite with its prepared statements: for database.cpp and transaction.cpp.
#pragma once

#include <map>
#include <string>

#include <sqlite3.h>

namespace lockstep::coordinator {

struct DatabaseConnection {
  DatabaseConnection() = default;
  DatabaseConnection(const DatabaseConnection&) = delete;
  DatabaseConnection& operator=(const DatabaseConnection&) = delete;
  ~DatabaseConnection() {
    for (const auto& [sql, statement] : statements) sqlite3_finalize(statement);
    sqlite3_close(handle);
  }
  sqlite3* handle = nullptr;
  std::map<std::string, sqlite3_stmt*, std::less<>> statements;  // by their text
};

}  // namespace lockstep::coordinator
