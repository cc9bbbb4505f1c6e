
#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>

#include <lockstep/collectives/base/number_text.h>
#include <lockstep/collectives/wire/endpoint.h>

namespace lockstep::collectives {

Result<Endpoint> Endpoint::parse(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  Endpoint out;
  boost::system::error_code wrong;
  if (colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    const std::string_view port = text.substr(colon + 1);
    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    const auto address = boost::asio::ip::make_address(std::string(host), wrong);
    const auto number = number_in<decltype(out.port)>(port);
    if (!wrong && number && address.is_v6() == bracketed) {
      out.address = address.to_string();
      out.port = *number;
      return out;
    }
  }
  return bad_input(
      fmt::format("{} is no address to listen at or to connect to; it takes a numeric "
                  "address and a port, for example 127.0.0.1:4711 or [::1]:4711.",
                  text));
}

std::string Endpoint::text() const {
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, port)
                                                : fmt::format("[{}]:{}", address, port);
}

bool Endpoint::loopback() const {
  boost::system::error_code wrong;
  const auto parsed = boost::asio::ip::make_address(address, wrong);
  if (wrong) return false;
  namespace ip = boost::asio::ip;
  if (parsed.is_v6() && parsed.to_v6().is_v4_mapped())  // as a socket for IPv4 and IPv6 reports it
    return ip::make_address_v4(ip::v4_mapped, parsed.to_v6()).is_loopback();
  return parsed.is_loopback();
}

}  // namespace lockstep::collectives
