// Implements Transaction and Row of database.h.
#include <sqlite3.h>

#include <lockstep/coordinator/store/database.h>
#include <lockstep/coordinator/store/database_connection.h>

namespace lockstep::coordinator {
namespace {

int bind(sqlite3_stmt* statement, int at, const Transaction::Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value))
    return sqlite3_bind_int64(statement, at, *number);
  if (const auto* text = std::get_if<std::string_view>(&value))
    return sqlite3_bind_text64(statement, at, text->data() != nullptr ? text->data() : "",
                               text->size(), SQLITE_STATIC, SQLITE_UTF8);
  if (const auto* bytes = std::get_if<std::span<const std::byte>>(&value))
    return bytes->empty()
               ? sqlite3_bind_zeroblob(statement, at, 0)
               : sqlite3_bind_blob64(statement, at, bytes->data(), bytes->size(), SQLITE_STATIC);
  return sqlite3_bind_null(statement, at);
}

}  // namespace

bool Row::null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

std::int64_t Row::integer(int column) const { return sqlite3_column_int64(statement_, column); }

std::string Row::text(int column) const {
  const auto* text = sqlite3_column_text(statement_, column);
  const auto bytes = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
  return text != nullptr ? std::string(reinterpret_cast<const char*>(text), bytes) : std::string();
}

Bytes Row::blob(int column) const {
  const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement_, column));
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes != nullptr ? Bytes(bytes, bytes + size) : Bytes();
}

void Transaction::run(std::string_view sql, std::initializer_list<Value> values,
                      const EachRow& each) {
  if (!ok()) return;
  auto known = connection_.statements.find(sql);
  if (known == connection_.statements.end()) {
    sqlite3_stmt* made = nullptr;
    failure_ = sqlite3_prepare_v3(connection_.handle, sql.data(), static_cast<int>(sql.size()),
                                  SQLITE_PREPARE_PERSISTENT, &made, nullptr);
    if (failure_ != SQLITE_OK) {
      why_ = sqlite3_errmsg(connection_.handle);
      return;
    }
    known = connection_.statements.emplace(sql, made).first;
  }
  sqlite3_stmt* const statement = known->second;
  int at = 0, done = SQLITE_OK;
  for (const Value& value : values)
    if (done == SQLITE_OK) done = bind(statement, ++at, value);
  if (done == SQLITE_OK) {
    while ((done = sqlite3_step(statement)) == SQLITE_ROW)
      if (each) each(Row(statement));
  }
  if (done != SQLITE_DONE && ok()) {
    failure_ = done;
    why_ = sqlite3_errmsg(connection_.handle);
  }
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
}

void Transaction::refuse(const std::string& why) {
  if (!ok()) return;
  failure_ = SQLITE_CORRUPT;
  why_ = why;
}

}  // namespace lockstep::coordinator
