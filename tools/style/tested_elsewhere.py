"""Sources without a test of their own, by the test that runs them instead.

A thin owner or one half of a protocol has nothing to say alone: what it is for
shows only when both ends are there.
"""

_TRANSPORT = "tests/transport/transport_test.cc"
_CREDENTIALS = "tests/transport/transport_credentials_test.cc"
_CLIENT_POLLER = "tests/transport/client_poller_test.cc"
_TRANSPORT_SHUTDOWN = "tests/transport/transport_shutdown_test.cc"
_END_TO_END = "tests/integration/lifecycle_test.cc"
_GENERIC = "tests/integration/generic_calls_test.cc"
_HEDGING = "tests/integration/hedging_test.cc"
_RESOLVERS = "tests/integration/resolvers_test.cc"
_RETRIES = "tests/integration/retries_test.cc"
_SERVICES = "tests/integration/services_test.cc"
_STREAMING = "tests/integration/streaming_test.cc"
_FORMS = "tests/integration/forms_test.cc"
_INTERCEPTORS = "tests/integration/interceptors_test.cc"
_RPC_BENCH = "tools/rpc_bench/rpc_bench_test.cc"
_PEERS = "tools/peer_bench/peers_test.cc"
_VERBS_LAYER = "tools/rpc_bench/verbs_layer_test.cc"
_MESSAGES = "tests/conformance/send_receive_test.cc"
_SOFT_DATAGRAMS = "transport/soft/datagram/datagram_queue_pair_test.cc"
_PRELOAD = "transport/soft/preload/preload_test.cc"
_REFUSALS = "tests/conformance/remote_access_test.cc"
_POLLER_DEVICE = "transport/session/poller_device_test.cc"
_DNS = "rpc/resolvers/dns_resolver_test.cc"
_ETCD = "rpc/resolvers/etcd_resolver_test.cc"
_ETCD_REGISTRATION = "rpc/resolvers/etcd_registration_test.cc"
_SOFT_CM = "transport/soft/cm/connection_manager_test.cc"

TESTED_ELSEWHERE = {
    # What it counts is read by those who have one for each method.
    "rpc/internal/metrics/method_counters.cc":
        "rpc/internal/metrics/channel_methods_test.cc",
    # Golden files show what both writers write.
    "proto/compiler/client_writer.cc": "proto/compiler/generator_test.cc",
    "proto/compiler/server_writer.cc": "proto/compiler/generator_test.cc",
    "proto/compiler/in_memory_files.cc": "proto/compiler/generator_test.cc",
    # The whole program, client and server.
    "tools/build/own_scope.cc": "tools/build/check_tidy_plugin.sh",
    "tools/rpc_bench/bench.cc": _RPC_BENCH,
    "tools/rpc_bench/bench_server.cc": _RPC_BENCH,
    "tools/rpc_bench/echo_services.cc": _RPC_BENCH,
    "tools/rpc_bench/local_devices.cc": "tools/rpc_bench/host_test.cc",
    "tools/rpc_bench/stream_crowd.cc":
        "tools/rpc_bench/rpc_bench_test.cc",
    "tools/rpc_bench/stream_pipe.cc": "tools/rpc_bench/rpc_layer_test.cc",
    "tools/rpc_bench/table.cc": "tools/rpc_bench/report_test.cc",
    "tools/rpc_bench/verbs_end.cc": _VERBS_LAYER,
    "tools/rpc_bench/verbs_server.cc": _VERBS_LAYER,
    "tools/gateway/grpc_to_verbena.cc": "tools/gateway/gateway_test.cc",
    "tools/gateway/verbena_to_grpc.cc": "tools/gateway/gateway_test.cc",
    "tools/rdma_doctor/doctor.cc": "tools/rdma_doctor/rdma_doctor_test.cc",
    "tools/rdma_doctor/self_test.cc": "tools/rdma_doctor/rdma_doctor_test.cc",
    "tools/verbena/commands.cc": "tools/verbena/verbena_test.cc",
    "tools/verbena/json_call.cc": "tools/verbena/verbena_test.cc",
    "tools/peer_bench/peer.cc": _PEERS,
    "tools/peer_bench/usage.cc": _PEERS,
    # Two processes and a server that goes away, on any device.
    "rpc/channel.cc": _END_TO_END,
    "rpc/internal/call/client_call_state.cc": "rpc/client_context_test.cc",
    "rpc/service.cc": "rpc/internal/server/method_registry_test.cc",
    "tools/command_line/tls_flags.cc": _RPC_BENCH,
    "transport/session/connection_guards_datapath.cc":
        "tests/transport/transport_checksum_test.cc",
    "transport/session/send_queue_seal_datapath.cc":
        "tests/transport/transport_seal_test.cc",
    "rpc/credentials/tls.cc": "rpc/credentials/tls_handshake_test.cc",
    "rpc/credentials/tls_context.cc": "rpc/credentials/tls_handshake_test.cc",
    "rpc/credentials/tls_peer.cc": "rpc/credentials/tls_handshake_test.cc",
    "rpc/support/stub_support.cc": _END_TO_END,
    "rpc/internal/client/channel_impl.cc": _END_TO_END,
    "rpc/internal/client/open_calls.cc": _END_TO_END,
    "rpc/internal/client/configured_call.cc": _RETRIES,
    "rpc/internal/client/hedged_call.cc": _HEDGING,
    "rpc/internal/client/health_watch.cc":
        "tests/integration/fit_servers_test.cc",
    "rpc/internal/client/hedging.cc": _HEDGING,
    "rpc/internal/client/retries.cc": _RETRIES,
    "rpc/internal/client/waiting_calls.cc": _RETRIES,
    "rpc/internal/client/resolver_link.cc": _RESOLVERS,
    "rpc/internal/client/server_set.cc": _SERVICES,
    "rpc/internal/client/service_server.cc":
        "tests/integration/fit_servers_test.cc",
    "rpc/internal/client/server_set_resolution.cc": _RESOLVERS,
    "rpc/internal/service/json_value.cc":
        "rpc/internal/service/service_config_test.cc",
    "rpc/internal/service/ring_hash.cc":
        "rpc/internal/service/balancers_test.cc",
    "rpc/internal/service/balancer_options.cc":
        "rpc/internal/service/balancers_test.cc",
    "rpc/internal/client/paths.cc":
        "rpc/internal/client/subchannel_connections_test.cc",
    "rpc/internal/client/open_call.cc": _END_TO_END,
    "rpc/internal/client/stream_call.cc": _STREAMING,
    "rpc/internal/client/blocking_stream.cc": _STREAMING,
    "rpc/internal/client/reactor_stream.cc": _FORMS,
    "rpc/internal/client/interception.cc": _INTERCEPTORS,
    "rpc/internal/server/handler_guard.cc": _INTERCEPTORS,
    "rpc/internal/server/interception.cc": _INTERCEPTORS,
    "rpc/internal/server/reactor_handler.cc": _FORMS,
    "rpc/internal/stream/protobuf_stream.cc": _STREAMING,
    "rpc/support/stream_reactor.cc": "rpc/internal/stream/reactions_test.cc",
    "rpc/internal/server/handler_stream.cc": _STREAMING,
    "transport/streams/open_streams_datapath.cc": _STREAMING,
    "rpc/internal/client/shared_pollers.cc": (
        "tests/integration/channels_test.cc"),
    "rpc/internal/client/shared_poller.cc": _END_TO_END,
    "rpc/internal/client/shared_poller_datapath.cc": _END_TO_END,
    "rpc/internal/client/subchannel.cc": _END_TO_END,
    "rpc/internal/server/server_impl.cc": _END_TO_END,
    "rpc/internal/server/server_looks.cc":
        "tests/integration/server_status_test.cc",
    "rpc/generic_service.cc": _GENERIC,
    "rpc/generic_stub.cc": _GENERIC,
    "rpc/server.cc": _END_TO_END,
    # Only a DNS server shows whether they ask well.
    "rpc/resolvers/dns_factory.cc": _DNS,
    "rpc/resolvers/dns_follower.cc": _DNS,
    "rpc/resolvers/dns_lookup.cc": _DNS,
    "rpc/resolvers/dns_worker.cc": _DNS,
    # Only etcd shows whether they speak with it.
    "rpc/resolvers/etcd_client.cc": _ETCD,
    "rpc/resolvers/etcd_factory.cc": _ETCD,
    "rpc/resolvers/etcd_follower.cc": _ETCD,
    "rpc/resolvers/etcd_loop.cc": _ETCD,
    "rpc/resolvers/etcd_registrar.cc": _ETCD_REGISTRATION,
    "rpc/services/reflection_service.cc": (
        "tests/integration/reflection_test.cc"),
    # What a handler and a caller see of one call.
    "rpc/internal/server/handler_call.cc": "tests/integration/status_test.cc",
    "rpc/internal/server/call_state.cc": "tests/integration/metadata_test.cc",
    "rpc/internal/server/reply_builder.cc":
        "tests/integration/metadata_test.cc",
    "rpc/internal/server/handler_call_pool.cc":
        "tests/integration/status_test.cc",
    "rpc/internal/client/unary_call.cc": "tests/integration/status_test.cc",
    # Both ends of a connection.
    "transport/client/lease_windows.cc":
        "tests/transport/hostile_server_leases_test.cc",
    "transport/verbs/memory_window.cc":
        "tests/transport/hostile_server_leases_test.cc",
    "transport/client/client_arenas.cc":
        "tests/transport/transport_memory_test.cc",
    "transport/client/client_arenas_datapath.cc": _TRANSPORT,
    "transport/client/client_calls.cc": _TRANSPORT,
    "transport/client/client_calls_datapath.cc": _TRANSPORT,
    "transport/streams/long_message.cc":
        "tests/transport/hostile_server_streams_test.cc",
    "transport/streams/stream_inbox.cc":
        "tests/integration/streaming_long_test.cc",
    "transport/server/server_streams.cc":
        "tests/transport/hostile_client_streams_test.cc",
    "transport/server/server_streams_datapath.cc":
        "tests/transport/hostile_client_streams_test.cc",
    "transport/streams/stream_reader.cc":
        "transport/streams/message_stream_test.cc",
    "transport/streams/stream_writer.cc":
        "transport/streams/message_stream_test.cc",
    "transport/server/server_streams_long.cc":
        "tests/transport/hostile_client_streams_test.cc",
    "transport/session/connection.cc": _TRANSPORT,
    "transport/session/connection_datapath.cc": _TRANSPORT,
    "transport/session/connection_ending.cc": _TRANSPORT,
    "transport/session/credit_balance.cc": _TRANSPORT,
    "transport/session/frame_sender_datapath.cc": _TRANSPORT,
    "transport/session/frame_assembly_datapath.cc":
        "tests/transport/transport_continued_test.cc",
    "transport/server/server_poller.cc": _TRANSPORT,
    "transport/server/bulk_share.cc": _TRANSPORT,
    "transport/server/reply_sender.cc": _TRANSPORT,
    "transport/server/reply_sender_datapath.cc": _TRANSPORT,
    "transport/server/reply_sender_writes_datapath.cc": _TRANSPORT,
    "transport/server/request_intake.cc": _TRANSPORT,
    "transport/server/request_intake_datapath.cc": _TRANSPORT,
    "transport/server/request_intake_reads_datapath.cc": _TRANSPORT,
    "transport/server/server_admission.cc": _CREDENTIALS,
    "transport/server/server_call.cc": _TRANSPORT,
    "transport/server/server_call_slots.cc": _TRANSPORT,
    "transport/server/server_calls.cc": _TRANSPORT,
    "transport/server/server_calls_datapath.cc": _TRANSPORT,
    "transport/server/server_metadata.cc": _TRANSPORT,
    "transport/server/stall_guard.cc":
        "tests/transport/hostile_client_stalls_test.cc",
    "transport/device/buffer_slabs.cc":
        "transport/device/send_buffers_test.cc",
    "transport/client/request_writer_datapath.cc": _TRANSPORT,
    # Only through the tables that they fill.
    "transport/faulty/faulty_cm.cc":
        "transport/faulty/faulty_provider_test.cc",
    "transport/faulty/faulty_state.cc":
        "transport/faulty/faulty_provider_test.cc",
    "transport/faulty/faulty_verbs.cc":
        "transport/faulty/faulty_provider_test.cc",
    "transport/faulty/real_devices.cc": "tests/transport/real_devices_test.cc",
    "transport/server_endpoint.cc": _TRANSPORT,
    "transport/client/client_admission.cc": _CREDENTIALS,
    "transport/client/client_streams.cc":
        "tests/transport/hostile_server_streams_test.cc",
    "transport/client/request_sender.cc": _TRANSPORT,
    "transport/client/request_sender_datapath.cc": _TRANSPORT,
    "transport/client/request_sender_metadata.cc": _TRANSPORT,
    "transport/client/response_intake.cc": _TRANSPORT,
    "transport/client/response_intake_datapath.cc": _TRANSPORT,
    "transport/client/response_intake_parts_datapath.cc":
        "tests/transport/transport_seal_test.cc",
    "transport/client/sent_calls.cc": _TRANSPORT,
    "transport/client/sent_calls_datapath.cc": _TRANSPORT,
    "transport/client/client_connection.cc": _CLIENT_POLLER,
    "transport/client/client_connection_steps.cc": _CLIENT_POLLER,
    "transport/client/client_devices.cc": _CLIENT_POLLER,
    "transport/client/client_poller.cc": _CLIENT_POLLER,
    "transport/client/lone_connection.cc": "tests/transport/transport_test.cc",
    "transport/device/device_connections.cc": _POLLER_DEVICE,
    "transport/device/device_limits.cc":
        "transport/client/device_limits_test.cc",
    "transport/device/memory_domain.cc": _POLLER_DEVICE,
    "transport/device/poller_device.cc": _POLLER_DEVICE,
    "transport/device/poller_device_datapath.cc": _POLLER_DEVICE,
    "transport/device/cm_watcher.cc": _TRANSPORT_SHUTDOWN,
    # The inside of the pool.
    "transport/memory/pool_core.cc": "transport/memory/buffer_pool_test.cc",
    "transport/memory/pool_core_datapath.cc":
        "transport/memory/buffer_pool_test.cc",
    # A software queue pair is tested as one device, through its verbs.
    "transport/soft/iwarp/iwarp_stream_receive_datapath.cc":
        "transport/soft/iwarp/iwarp_stream_hostile_test.cc",
    "transport/soft/iwarp/iwarp_stream_send_datapath.cc":
        "transport/soft/iwarp/iwarp_stream_flow_test.cc",
    "transport/soft/iwarp/iwarp_stream_take_datapath.cc":
        "transport/soft/iwarp/iwarp_stream_test.cc",
    "transport/soft/verbs/memory_region.cc":
        "transport/soft/verbs/verbs_table_test.cc",
    "transport/soft/device/port_events.cc":
        "transport/soft/extended/address_watch_test.cc",
    "transport/soft/extended/send_builder.cc":
        "transport/soft/extended/extended_queue_pair_test.cc",
    "transport/soft/device/context.cc": _MESSAGES,
    "transport/soft/manual/manual_link.cc": _MESSAGES,
    "transport/soft/queues/queue_pair.cc": _MESSAGES,
    "transport/soft/queues/completion_ring.cc":
        "tests/conformance/resizing_test.cc",
    "transport/soft/cm/network_of_own.cc":
        "transport/soft/cm/cm_remote_test.cc",
    "transport/soft/connected/driven_link.cc":
        "transport/soft/remote/relay_test.cc",
    "transport/soft/connected/connected_queue_pair_stream.cc":
        "transport/soft/remote/relay_test.cc",
    "transport/soft/remote/relay_greeting.cc":
        "transport/soft/cm/cm_remote_test.cc",
    "transport/soft/remote/relay_stream.cc":
        "transport/soft/remote/relay_test.cc",
    "transport/soft/queues/polled_queue_pairs.cc":
        "transport/soft/connected/parking_test.cc",
    "transport/soft/queues/polled_queue_pairs_datapath.cc":
        "transport/soft/connected/parking_test.cc",
    "transport/soft/verbs/context_verbs.cc": _MESSAGES,
    "transport/soft/verbs/create_queues.cc":
        "transport/soft/verbs/verbs_table_test.cc",
    "transport/soft/full/full_verbs.cc":
        "transport/soft/full/full_provider_test.cc",
    "transport/soft/address/legal_path.cc":
        "transport/soft/datagram/address_handle_test.cc",
    "transport/soft/cm/connection_space.cc": _SOFT_CM,
    "transport/soft/services/service_ops.cc":
        "transport/soft/services/datagram_service_test.cc",
    "transport/soft/extended/async_events.cc":
        "tests/conformance/async_events_test.cc",
    "transport/soft/extended/advise_mr.cc":
        "transport/soft/memory/on_demand_memory_test.cc",
    "transport/soft/extended/resize_cq.cc":
        "tests/conformance/resizing_test.cc",
    "transport/soft/extended/rereg_mr.cc": "tests/conformance/resizing_test.cc",
    "transport/soft/verbs/memory_window_verbs.cc":
        "tests/conformance/memory_windows_test.cc",
    "transport/soft/connected/connected_queue_pair.cc": _REFUSALS,
    "transport/soft/queues/verbs_handle.cc":
        "transport/soft/verbs/verbs_table_test.cc",
    "transport/soft/connected/connected_queue_pair_attributes.cc": _REFUSALS,
    # Relays and their thread: programs on two hosts need both.
    "transport/soft/remote/network.cc": "tests/programs/run_lines",
    "transport/soft/device/queue_pair_directory.cc": _MESSAGES,
    "transport/soft/manual/manual_links.cc":
        "transport/soft/manual/manual_process_test.cc",
    "transport/soft/connected/connected_queue_pair_datapath.cc": _MESSAGES,
    "transport/soft/connected/held_link.cc":
        "transport/soft/soft_faults_test.cc",
    "transport/soft/connected/connected_queue_pair_engine.cc":
        "transport/soft/connected/parking_test.cc",
    "transport/soft/connected/packet_exchange_datapath.cc": _MESSAGES,
    "transport/soft/connected/queue_pair_attributes.cc": _REFUSALS,
    "transport/soft/connected/requester.cc": _MESSAGES,
    "transport/soft/connected/requester_datapath.cc": _MESSAGES,
    "transport/soft/connected/requester_local.cc":
        "tests/conformance/memory_windows_test.cc",
    "transport/soft/connected/responder.cc": _REFUSALS,
    "transport/soft/connected/responder_atomic_datapath.cc":
        "tests/conformance/atomics_test.cc",
    "transport/soft/connected/responder_datapath.cc": _MESSAGES,
    "transport/soft/device/soft_device.cc": _MESSAGES,
    "transport/soft/datagram/datagram_queue_pair_attributes.cc":
        _SOFT_DATAGRAMS,
    "transport/soft/datagram/datagram_queue_pair_transfer.cc": _SOFT_DATAGRAMS,
    "transport/soft/datagram/datagram_send_queue.cc": _SOFT_DATAGRAMS,
    "transport/soft/base/datagram_socket.cc": _SOFT_DATAGRAMS,
    "transport/soft/base/foreign_fd.cc":
        "transport/soft/cm/cm_hostile_test.cc",
    "transport/soft/datagram/datagram_verbs.cc": _SOFT_DATAGRAMS,
    "transport/soft/datagram/cm_datagram.cc":
        "transport/soft/services/datagram_service_test.cc",
    "transport/soft/datagram/multicast_groups.cc":
        "transport/soft/datagram/multicast_test.cc",
    "transport/soft/datagram/udp_socket.cc":
        "transport/soft/datagram/datagram_network_test.cc",
    "transport/soft/base/event_queue.cc":
        "transport/soft/queues/completion_queue_test.cc",
    "transport/soft/soft_provider.cc": "transport/soft/cm/cm_ops_test.cc",
    "transport/soft/cm/cm_channel.cc": "transport/soft/cm/cm_events_test.cc",
    "transport/soft/cm/cm_queue_pair.cc": _SOFT_CM,
    "transport/soft/cm/connection_handshake.cc": _SOFT_CM,
    "transport/soft/cm/connection_listener.cc": _SOFT_CM,
    "transport/soft/cm/connection_requester.cc": _SOFT_CM,
    "transport/soft/cm/endpoint_addresses.cc": _SOFT_CM,
    "transport/soft/cm/endpoint_callbacks.cc": _SOFT_CM,
    "transport/soft/services/group_membership.cc":
        "transport/soft/services/datagram_service_test.cc",
    "transport/soft/preload/cm_library_queues.cc":
        "transport/soft/preload/cm_library_test.cc",
    "transport/soft/preload/export_cm.cc": _PRELOAD,
    "transport/soft/preload/export_cm_queries.cc": _PRELOAD,
    "transport/soft/preload/export_datagrams.cc": "tests/programs/run_lines",
    "transport/soft/preload/export_devices.cc": _PRELOAD,
    "transport/soft/preload/export_files.cc": _PRELOAD,
    "transport/soft/preload/export_objects.cc": _PRELOAD,
    "transport/soft/preload/export_queue_pairs.cc":
        "tests/programs/run_lines",
    "transport/soft/preload/next_definition.cc": _PRELOAD,
    "transport/soft/preload/next_provider.cc": _PRELOAD,
    "transport/soft/preload/soft_objects.cc": _PRELOAD,
}
