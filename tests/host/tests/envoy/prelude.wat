(module
  (import "env" "proxy_log" (func $log (param i32 i32 i32) (result i32)))
  (import "env" "proxy_get_current_time_nanoseconds" (func $now (param i32) (result i32)))
  (import "env" "proxy_set_tick_period_milliseconds" (func $set_tick (param i32) (result i32)))
  (import "env" "proxy_set_effective_context" (func $act_as (param i32) (result i32)))
  (import "env" "proxy_get_property" (func $get_property (param i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_set_property" (func $set_property (param i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_get_header_map_pairs" (func $get_map (param i32 i32 i32) (result i32)))
  (import "env" "proxy_set_header_map_pairs" (func $set_map (param i32 i32 i32) (result i32)))
  (import "env" "proxy_get_header_map_value" (func $get_header (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_add_header_map_value" (func $add_header (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_replace_header_map_value" (func $set_header (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_get_buffer_bytes" (func $get_buffer (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_continue_stream" (func $resume (param i32) (result i32)))
  (import "env" "proxy_send_local_response"
    (func $send (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_http_call"
    (func $http_call (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_get_shared_data" (func $get_shared (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_set_shared_data" (func $set_shared (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_register_shared_queue" (func $register (param i32 i32 i32) (result i32)))
  (import "env" "proxy_enqueue_shared_queue" (func $enqueue (param i32 i32 i32) (result i32)))
  (import "env" "proxy_dequeue_shared_queue" (func $dequeue (param i32 i32 i32) (result i32)))
  (import "env" "proxy_define_metric" (func $define_metric (param i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_increment_metric" (func $increment_metric (param i32 i64) (result i32)))
  (import "env" "proxy_get_status" (func $get_status (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))

  (memory (export "memory") 2)
  (global $heap (mut i32) (i32.const 4096))

  (func (export "proxy_abi_version_0_2_1"))

  ;; A heap that starts anew after 64 KiB: nothing here is kept for long.
  (func (export "proxy_on_memory_allocate") (param $len i32) (result i32)
    (local $at i32)
    (if (i32.gt_u (global.get $heap) (i32.const 65536)) (then (global.set $heap (i32.const 4096))))
    (local.set $at (global.get $heap))
    (global.set $heap (i32.add (local.get $at) (local.get $len)))
    (local.get $at))

  ;; As the SDK: a status that is not OK is a panic.
  (func $must (param $status i32)
    (if (local.get $status) (then
      (drop (call $log (i32.const 5) (i32.const 512) (i32.const 17)))
      (unreachable))))
  (data (i32.const 512) "unexpected status")

  ;; Leaves a status in the filter state, as one digit from 'a' for OK.
  (func $note (param $name i32) (param $len i32) (param $status i32)
    (i32.store8 (i32.const 500) (i32.add (local.get $status) (i32.const 97)))
    (call $must (call $set_property (local.get $name) (local.get $len) (i32.const 500) (i32.const 1))))

  ;; Variables: 0 and 4 take what the host hands over, 8 a number.
  (func $ptr (result i32) (i32.load (i32.const 0)))
  (func $len (result i32) (i32.load (i32.const 4)))
  (func $clear (i64.store (i32.const 0) (i64.const 0)))
