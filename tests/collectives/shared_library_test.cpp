// Libraries that are loaded when they are asked for: the C library, which is always there, and ones
// that are not.
#include <cstddef>

#include <gtest/gtest.h>

#include <lockstep/collectives/base/shared_library.h>

namespace lockstep::shared_library_test {
namespace {

TEST(SharedLibrary, ThatIsThere_GivesItsFunctions) {
  SharedLibrary library({"no_such_library.so", "libc.so.6"});
  ASSERT_TRUE(library.loaded());
  std::size_t (*length)(const char*) = nullptr;
  library.find(length, "strlen");
  ASSERT_NE(length, nullptr);
  EXPECT_EQ(length("four"), 4U);
  EXPECT_EQ(library.lacks(), "");
}

TEST(SharedLibrary, ThatIsThere_SaysWhichFileItIs) {
  const SharedLibrary library({"libc.so.6"});
  EXPECT_TRUE(library.path().starts_with("/")) << library.path();
  EXPECT_TRUE(library.path().ends_with("/libc.so.6")) << library.path();
}

TEST(SharedLibrary, ThatIsDropped_IsNotLoaded) {
  SharedLibrary library({"libc.so.6"});
  library.drop();
  EXPECT_FALSE(library.loaded());
  library.drop();
}

TEST(SharedLibrary, WithoutAFunction_SaysTheFirstThatItLacks) {
  SharedLibrary library({"libc.so.6"});
  void (*none)() = nullptr;
  library.find(none, "no_such_function");
  EXPECT_EQ(none, nullptr);
  library.find(none, "another_one");
  EXPECT_EQ(library.lacks(), "no_such_function");
}

TEST(SharedLibrary, ThatIsNotThere_SaysWhyOfTheFirstName) {
  const SharedLibrary library({"no_such_library.so", "nor_this.so"});
  EXPECT_FALSE(library.loaded());
  EXPECT_EQ(library.why().find("no_such_library.so: "), 0U) << library.why();
}

}  // namespace
}  // namespace lockstep::shared_library_test
