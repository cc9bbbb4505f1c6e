// Addresses and secrets, and those that are refused.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <lockstep/collectives/wire/endpoint.h>
#include <lockstep/collectives/wire/secret.h>

namespace lockstep::collectives::endpoint_test {
namespace {

class Files : public testing::Test {
 protected:
  Files() : folder_(testing::TempDir() + "lockstep-endpoint-XXXXXX") { ::mkdtemp(folder_.data()); }
  ~Files() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  std::string folder_;
};

TEST(Endpoint, AddressesAndPorts) {
  for (const char* text : {"127.0.0.1:4711", "[::1]:0", "10.0.0.1:65535"})
    EXPECT_EQ(Endpoint::parse(text).value().text(), text);
  for (const char* text : {"", "4711", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
                           "127.0.0.1:1x", "::1:80", "[127.0.0.1]:80", "localhost:80", ":80"}) {
    const auto wrong = Endpoint::parse(text);
    ASSERT_FALSE(wrong) << text;
    EXPECT_EQ(wrong.error().code, Code::BadInput);
  }
}

TEST(Endpoint, Loopback_IsWhatOtherMachinesCannotReach) {
  for (const char* text : {"127.0.0.1:1", "127.8.8.8:1", "[::1]:1"})
    EXPECT_TRUE(Endpoint::parse(text).value().loopback()) << text;
  for (const char* text : {"0.0.0.0:1", "10.0.0.1:1", "[::]:1"})
    EXPECT_FALSE(Endpoint::parse(text).value().loopback()) << text;
}

TEST_F(Files, Secret_IsTheFileLessItsLastLineBreak) {
  const auto secret = read_secret(file("token", "0123456789abcdef\n")).value();
  EXPECT_EQ(secret.size(), 16U);
  EXPECT_EQ(secret.back(), std::byte{'f'});
}

TEST_F(Files, Secret_ThatOthersMayReadOrThatIsNoFileOfOurs_IsRefused) {
  const std::string sound = file("token", "0123456789abcdef");
  std::filesystem::create_symlink(sound, folder_ + "/link");
  ::mkfifo((folder_ + "/fifo").c_str(), 0600);
  for (const std::string& path :
       {file("group", "0123456789abcdef", 0640), file("world", "0123456789abcdef", 0604),
        file("short", "0123456789abcde\n"), file("long", std::string(5000, 'x')), folder_ + "/link",
        folder_ + "/fifo", folder_}) {
    const auto refused = read_secret(path);
    ASSERT_FALSE(refused) << path;
    EXPECT_EQ(refused.error().code, Code::Version) << refused.error().message;
    EXPECT_NE(refused.error().message.find(path), std::string::npos);
    EXPECT_EQ(refused.error().message.find("0123456789abcde"), std::string::npos) << "no secrets";
  }
  EXPECT_EQ(read_secret(folder_ + "/none").error().code, Code::Environment);
}

TEST(Secret, OfEachStart_IsAnother) {
  EXPECT_EQ(random_secret().size(), 64U);
  EXPECT_NE(random_secret(), random_secret());
  EXPECT_NE(random_nonce(), random_nonce());
}

}  // namespace
}  // namespace lockstep::collectives::endpoint_test
