// A file by which ranks of one host meet without a known address: private to this user, with the
// address and the secret of rank 0. Used by tcp_rendezvous.cpp and tcp_rendezvous_child.cpp only.
#pragma once

#include <string>

#include <lockstep/collectives/wire/endpoint.h>
#include <lockstep/collectives/wire/secret.h>

namespace lockstep::collectives {

struct RendezvousWord {
  Endpoint at;
  Secret secret;
};

/// Writes the file, whole or not at all, with mode 0600, in place of a file that an earlier job has
/// left. Errors: Environment.
[[nodiscard]] Result<void> write_rendezvous(const std::string& file, const RendezvousWord& word);
/// Errors: Environment (there is no such file, or it does not have this form), Version (the file is
/// not private to this user).
[[nodiscard]] Result<RendezvousWord> read_rendezvous(const std::string& file);

}  // namespace lockstep::collectives
