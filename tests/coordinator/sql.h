// Changes a database behind the back of the stores.
#pragma once

#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>

namespace lockstep::coordinator {

/// Runs `statements` on `file`, which is made if it is missing, private as the stores want it.
inline void run_sql(const std::filesystem::path& file, const std::string& statements) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &handle), SQLITE_OK);
  char* message = nullptr;
  EXPECT_EQ(sqlite3_exec(handle, statements.c_str(), nullptr, nullptr, &message), SQLITE_OK)
      << message;
  sqlite3_free(message);
  sqlite3_close(handle);
  ::chmod(file.c_str(), 0600);
}

}  // namespace lockstep::coordinator
