# Completion of the lockstep command, loaded at its first TAB; the command itself writes the script.
source <("${1:-lockstep}" --completion)
