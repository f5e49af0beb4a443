"""Name every attack on the sandbox, and the tests that carry it out with its neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_FILES: Final[Mapping[str, str]] = {
    "limits": "tests/sandboxd/test_attacks_on_limits.py",
    "hoards": "tests/sandboxd/test_attacks_on_hoards.py",
    "watch": "tests/sandboxd/test_attacks_on_the_watch.py",
    "walls": "tests/sandboxd/test_attacks_on_walls.py",
    "kernel": "tests/sandboxd/test_attacks_on_the_kernel.py",
    "calls": "tests/sandboxd/test_seccomp.py",
    "network": "tests/sandboxd/test_attacks_on_the_network.py",
    "node": "tests/sandboxd/test_attacks_on_node.py",
    "npm": "tests/sandboxd/test_attacks_on_npm.py",
    "outputs": "tests/sandboxd/test_outputs.py",
    "egress": "tests/sandboxd/test_attacks_on_egress.py",
    "service": "tests/sandboxd/test_service.py",
    "kernels": "tests/sandboxd/test_kernels.py",
    "ready": "tests/sandboxd/test_ready.py",
    "runner": "tests/sandbox/test_runner.py",
    "wire": "tests/domain/test_wire.py",
    "trees": "tests/domain/test_packagetree.py",
}


@dataclass(frozen=True, slots=True)
class Attack:
    """One row: what is tried, and the tests of it. `accepted` says why an open one stays so."""

    number: int
    title: str
    tests: tuple[str, ...]
    accepted: str = ""


def _row(number: int, title: str, *tests: str, accepted: str = "") -> Attack:
    def place(test: str) -> str:
        file, _, name = test.partition(":")
        return f"{_FILES[file]}::test_{name}"

    return Attack(number, title, tuple(map(place, tests)), accepted)


_EVERY_CALL: Final = "calls:a_real_sandbox_refuses_every_call_of_the_table"
_SOCKETS: Final = "calls:a_real_sandbox_makes_no_unusual_socket_and_no_namespace"
_REACH: Final = "network:no_network_and_no_socket_of_the_host_is_reached"

TABLE: Final = (
    _row(1, "fork bomb", "limits:a_fork_bomb_stops_at_the_process_limit"),
    _row(2, "500 forks in sessions of their own, then the deadline",
         "limits:hundreds_of_processes_in_sessions_of_their_own_die_at_the_deadline"),
    _row(3, "thread bomb", "limits:a_thread_bomb_stops"),
    _row(4, "memory bomb in one process", "limits:one_process_cannot_hoard_memory"),
    _row(5, "memory bomb over many children",
         "limits:many_processes_cannot_hoard_memory_together", "limits:shared_memory_counts",
         "watch:memory_cannot_be_hidden_from_the_watcher",
         "limits:memory_cannot_be_hidden_in_sockets",
         "limits:memory_cannot_be_hidden_in_connections_that_grow",
         "limits:no_socket_is_given_larger_buffers"),
    _row(6, "hoard in files without a name", "hoards:no_file_without_a_name_hides_memory"),
    _row(7, "System V and POSIX memory, queues, semaphores",
         "hoards:no_memory_or_queue_of_system_v_or_posix_is_made", _EVERY_CALL),
    _row(8, "fill the workspace", "limits:a_disk_file_cannot_grow_past_the_workspace"),
    _row(9, "fill every other place", "limits:no_other_place_takes_more_than_its_size",
         "limits:too_many_files_end_the_call", "hoards:many_folders_and_links_count_as_files"),
    _row(10, "use up descriptors", "limits:descriptors_run_out",
         "hoards:many_small_handles_of_the_kernel_run_out",
         "hoards:nobody_takes_the_terminals_of_the_machine"),
    _row(11, "spin with all signals ignored",
         "limits:spinning_with_every_signal_ignored_ends_at_the_cpu_limit",
         "limits:cpu_time_of_dead_children_counts"),
    _row(12, "sleep past the deadline", "limits:sleeping_past_the_deadline_ends_there"),
    _row(13, "double forks that ignore signals",
         "limits:orphans_that_ignore_signals_die_with_their_sandbox"),
    _row(14, "exit while a child keeps the output open",
         "limits:a_child_that_keeps_the_output_open_holds_nobody_up"),
    _row(15, "kill the worker or the supervisor in the middle",
         "service:an_asker_that_leaves_takes_its_sandbox_along",
         "service:sandboxes_die_with_a_killed_supervisor"),
    _row(16, "outlive the thread that launched it",
         "kernels:what_a_cell_leaves_is_there_for_the_next_one"),
    _row(17, "200 MB of output",
         "limits:endless_output_ends_the_call_and_little_of_it_is_kept"),
    _row(18, "endless fast output", "limits:a_flood_on_the_result_channel_ends_the_call",
         "limits:endless_output_ends_the_call_and_little_of_it_is_kept"),
    _row(19, "endless slow output", "limits:slow_endless_output_ends_at_the_deadline"),
    _row(20, "bytes that are no text, terminal escapes",
         "hoards:output_stays_bytes_and_is_shown_harmless"),
    _row(21, "grow 120 pipes", "hoards:pipes_hold_little"),
    _row(22, "output is a link", "outputs:tricks_do_not_come_out"),
    _row(23, "a folder above the output is a link", "outputs:tricks_do_not_come_out"),
    _row(24, "outputs outside of the workspace",
         "outputs:bad_names_are_refused_before_anything_runs"),
    _row(25, "output is a hard link", "outputs:tricks_do_not_come_out"),
    _row(26, "output is a fifo, socket or folder", "outputs:tricks_do_not_come_out"),
    _row(27, "output is a device", "kernel:only_harmless_devices_are_there", _SOCKETS),
    _row(28, "sparse giant", "limits:a_sparse_giant_is_refused"),
    _row(29, "swap the output during collection",
         "outputs:nothing_swaps_an_output_during_collection"),
    _row(30, "too many and impossible names", "outputs:too_many_names_are_refused",
         "outputs:bad_names_are_refused_before_anything_runs"),
    _row(31, "change an input", "walls:inputs_cannot_be_changed"),
    _row(32, "secrets of the environment", "walls:the_environment_holds_only_what_we_put_there"),
    _row(33, "other processes through /proc", "walls:no_process_of_the_host_can_be_seen"),
    _row(34, "files of the host", "walls:host_files_are_absent",
         "walls:no_source_of_ours_and_no_installed_package_can_be_imported",
         "kernel:the_mounts_are_those_of_the_plan"),
    _row(35, "inherited descriptors", "walls:only_the_agreed_descriptors_are_open"),
    _row(36, "kernel log, symbols, memory, keys",
         "walls:secrets_and_levers_of_the_kernel_are_out_of_reach"),
    _row(37, "paths of the host in the mount table", "walls:inputs_lie_on_no_path_of_the_host"),
    _row(38, "name of the host", "walls:the_name_of_the_host_is_hidden"),
    _row(39, "read and steer other processes",
         "kernel:other_processes_are_neither_read_nor_steered", _EVERY_CALL),
    _row(40, "make and enter namespaces", "kernel:no_namespace_is_made_or_entered"),
    _row(41, "mount, unmount, change the root",
         "kernel:nothing_is_mounted_and_no_root_changed"),
    _row(42, "kernel keyring", "kernel:the_machine_is_not_changed", _EVERY_CALL),
    _row(43, "rings, old asynchronous I/O, user faults, BPF, counters", _EVERY_CALL,
         "kernel:the_machine_is_not_changed"),
    _row(44, "unusual sockets", "kernel:of_all_families_of_sockets_only_four_are_made", _SOCKETS),
    _row(45, "a second set of system calls", "walls:a_foreign_language_of_system_calls_kills",
         "kernel:a_second_set_of_call_numbers_kills"),
    _row(46, "setuid programs and file capabilities", "walls:setuid_programs_gain_nothing",
         "kernel:programs_with_more_rights_outside_have_none_here"),
    _row(47, "words into a terminal", "kernel:terminals_take_no_words_from_a_program",
         "walls:a_program_cannot_open_a_terminal"),
    _row(48, "personality, clock, swap, accounting, reboot, names",
         "kernel:the_machine_is_not_changed", _EVERY_CALL),
    _row(49, "open files by handle", "kernel:the_machine_is_not_changed", _EVERY_CALL),
    _row(50, "write the kernel's levers",
         "walls:secrets_and_levers_of_the_kernel_are_out_of_reach",
         "kernel:nothing_of_the_kernels_files_can_be_written",
         "service:bubblewrap_is_never_started_as_root"),
    _row(51, "read what only root may", "walls:root_is_nobody_here",
         "walls:the_first_process_inside_is_as_confined_as_the_program"),
    _row(52, "kill the first process, the parent, everybody",
         "walls:nobody_outside_can_be_signalled", "walls:two_sandboxes_do_not_meet"),
    _row(53, "real-time scheduling, negative nice",
         "limits:limits_cannot_be_raised_from_inside"),
    _row(54, "core dumps", "hoards:a_crash_leaves_no_core"),
    _row(55, "raise its own limits", "limits:limits_cannot_be_raised_from_inside"),
    _row(56, "be the last to die for memory",
         "hoards:a_program_cannot_make_itself_the_last_to_die"),
    _row(57, "loopback of the host, metadata, public addresses, names", _REACH,
         "node:node_reaches_nothing_either"),
    _row(58, "abstract sockets of the host", _REACH),
    _row(59, "sockets of the host by path", _REACH),
    _row(60, "make interfaces",
         "kernel:of_netlink_only_the_routing_table_answers_and_changes_nothing", _SOCKETS),
    _row(61, "500 Node workers that spin", "node:hundreds_of_workers_that_spin_are_ended"),
    _row(62, "memory bombs of Node", "node:memory_bombs_of_node_end_the_call"),
    _row(63, "Node's inspector", "node:the_inspector_listens_to_nobody_outside"),
    _row(64, "two sandboxes look for each other", "walls:two_sandboxes_do_not_meet",
         "walls:every_running_sandbox_has_a_user_id_of_its_own",
         "walls:nobody_watches_what_others_open_and_run",
         "kernels:a_kernel_cannot_see_or_touch_another",
         "ready:programs_at_once_never_share_a_sandbox"),
    _row(65, "a storm of launches", "service:a_storm_of_launches_all_succeed"),
    _row(66, "network: a host that is not listed",
         "egress:a_host_that_is_not_listed_a_subdomain_or_a_lookalike_is_refused"),
    _row(67, "network: inner addresses by name", "egress:a_name_that_leads_inside_is_refused"),
    _row(68, "network: addresses as hosts", "egress:an_address_in_any_form_is_no_host"),
    _row(69, "network: one good and one bad answer", "egress:a_name_that_leads_inside_is_refused"),
    _row(70, "network: another answer the second time",
         "egress:a_name_is_looked_up_once_for_each_connection_and_never_again"),
    _row(71, "network: other requests than a plain CONNECT",
         "egress:only_a_plain_connect_is_understood",
         "egress:what_follows_the_head_goes_to_the_named_host_and_is_no_second_request"),
    _row(72, "network: other ports", "egress:a_port_that_is_not_listed_is_refused"),
    _row(73, "network: 40 connections at once",
         "egress:sixteen_connections_are_open_at_once_and_no_more",
         "egress:a_call_moves_no_more_than_its_budget"),
    _row(74, "network: data in names and datagrams",
         "egress:names_and_datagrams_carry_nothing_out"),
    _row(75, "lifecycle scripts of packages",
         "npm:no_script_of_a_package_or_its_dependency_runs"),
    _row(76, "dependencies from anywhere", "npm:nothing_is_fetched_from_anywhere"),
    _row(77, "one step changes the tree of the next", "runner:a_tool_keeps_nothing_between_calls",
         "ready:each_program_has_a_sandbox_of_its_own_with_nothing_of_the_one_before",
         "walls:inputs_cannot_be_changed"),
    _row(78, "a forged receipt on the output", "runner:a_forged_pass_is_none"),
    _row(79, "write another process's result channel",
         "kernel:no_result_channel_of_another_process_is_written"),
    _row(80, "JSON that is too deep, too long, twice, cut, or none", "wire:what_is_refused",
         "runner:what_is_no_answer_is_refused"),
    _row(81, "hostile archives", "trees:a_hostile_archive_is_refused_by_rule",
         "trees:a_tree_that_no_package_may_have_is_refused_by_rule"),
)  # fmt: skip

# What only the filter of system calls stops; without it these have to be found open.
BEHIND_THE_FILTER: Final = frozenset({6, 7, 27, 39, 42, 43, 44, 48, 49})
