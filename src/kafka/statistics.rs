//! librdkafka's statistics: parses reports, for the stream itself and for the metrics endpoint.

use crate::ports::Reading;
use serde::Deserialize;
use std::collections::HashMap;

/// The interval between reports, in milliseconds.
pub(super) const STATISTICS_MS: &str = "1000";

/// The part of a report that the program uses.
#[derive(Debug, Default)]
pub(super) struct StatisticsReport {
    /// The known partitions of the requested topic with their high watermarks; a negative watermark is unknown.
    pub partitions: Vec<(i32, i64)>,
    /// Whether any broker is connected.
    pub is_any_up: bool,
    /// For the metrics endpoint.
    pub readings: Vec<Reading>,
}

/// A report as librdkafka writes it (STATISTICS.md), cut down to the fields read here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Report {
    #[serde(rename = "type")]
    kind: String,
    replyq: f64,
    msg_cnt: f64,
    msg_size: f64,
    tx: f64,
    tx_bytes: f64,
    rx: f64,
    rx_bytes: f64,
    txmsgs: f64,
    rxmsgs: f64,
    brokers: HashMap<String, Broker>,
    topics: HashMap<String, Topic>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Broker {
    state: String,
    txerrs: f64,
    txretries: f64,
    rxerrs: f64,
    req_timeouts: f64,
    disconnects: f64,
    rtt: Window,
    throttle: Window,
}

/// A rolling window, in microseconds; for throttling, in milliseconds.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Window {
    avg: f64,
    p99: f64,
}

#[derive(Deserialize)]
struct Topic {
    partitions: HashMap<i32, Partition>,
}

#[derive(Deserialize)]
struct Partition {
    hi_offset: i64,
    /// Whether the topic's metadata lacks this partition.
    unknown: bool,
    #[serde(default)]
    fetchq_cnt: f64,
    #[serde(default)]
    fetchq_size: f64,
}

/// Parses a report; `None` if it is malformed.
pub(super) fn parse_statistics(statistics: &[u8], topic: &str) -> Option<StatisticsReport> {
    let report: Report = serde_json::from_slice(statistics).ok()?;
    let mut parsed = StatisticsReport {
        is_any_up: report.brokers.values().any(|broker| broker.state == "UP"),
        ..StatisticsReport::default()
    };
    parsed.readings = client_readings(&report);
    for (name, broker) in &report.brokers {
        parsed.readings.extend(broker_readings(&report.kind, name, broker));
    }
    if let Some(topic) = report.topics.get(topic) {
        // Partition -1 holds messages without a partition.
        for (partition, found) in
            topic.partitions.iter().filter(|(partition, found)| **partition >= 0 && !found.unknown)
        {
            parsed.partitions.push((*partition, found.hi_offset));
            let labels = vec![("partition", partition.to_string())];
            parsed.readings.extend([
                Reading::new("lookalike_kafka_fetch_queue_messages", labels.clone(), found.fetchq_cnt),
                Reading::new("lookalike_kafka_fetch_queue_bytes", labels, found.fetchq_size),
            ]);
        }
    }
    parsed.partitions.sort_unstable();
    Some(parsed)
}

fn client_readings(report: &Report) -> Vec<Reading> {
    let reading = |name, value| Reading::new(name, vec![("client", report.kind.clone())], value);
    vec![
        reading("lookalike_kafka_callbacks_waiting", report.replyq),
        reading("lookalike_kafka_produce_queue_messages", report.msg_cnt),
        reading("lookalike_kafka_produce_queue_bytes", report.msg_size),
        reading("lookalike_kafka_requests_sent", report.tx),
        reading("lookalike_kafka_bytes_sent", report.tx_bytes),
        reading("lookalike_kafka_responses_received", report.rx),
        reading("lookalike_kafka_bytes_received", report.rx_bytes),
        reading("lookalike_kafka_messages_sent", report.txmsgs),
        reading("lookalike_kafka_messages_received", report.rxmsgs),
    ]
}

fn broker_readings(client: &str, name: &str, broker: &Broker) -> Vec<Reading> {
    let labels = || vec![("client", client.to_string()), ("broker", name.to_string())];
    let reading = |name, value| Reading::new(name, labels(), value);
    vec![
        reading("lookalike_kafka_broker_up", f64::from(u8::from(broker.state == "UP"))),
        reading("lookalike_kafka_broker_send_errors", broker.txerrs),
        reading("lookalike_kafka_broker_retries", broker.txretries),
        reading("lookalike_kafka_broker_receive_errors", broker.rxerrs),
        reading("lookalike_kafka_broker_timeouts", broker.req_timeouts),
        reading("lookalike_kafka_broker_disconnects", broker.disconnects),
        reading("lookalike_kafka_broker_rtt_avg_seconds", broker.rtt.avg / 1e6),
        reading("lookalike_kafka_broker_rtt_p99_seconds", broker.rtt.p99 / 1e6),
        reading("lookalike_kafka_broker_throttle_avg_seconds", broker.throttle.avg / 1e3),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_hold_partitions_and_watermarks() {
        let json = br#"{"name":"x","type":"consumer","rxmsgs":12,
            "brokers":{"a:1/1":{"state":"UP","rtt":{"avg":1500,"p99":3000}},"b:1/2":{"state":"DOWN"}},
            "topics":{"other":{"partitions":{"0":{"hi_offset":5,"unknown":false}}},
            "t":{"topic":"t","partitions":{
                "-1":{"hi_offset":-1001,"unknown":false}, "1":{"hi_offset":-1001,"unknown":false},
                "0":{"hi_offset":9,"unknown":false,"lo_offset":1,"fetchq_cnt":3}, "7":{"hi_offset":1,"unknown":true}}}}}"#;
        let parsed = parse_statistics(json, "t").expect("a report");
        assert_eq!(parsed.partitions, [(0, 9), (1, -1001)]);
        assert!(parsed.is_any_up);
        let value = |name: &str, label: &str| {
            let found = parsed
                .readings
                .iter()
                .find(|reading| reading.name == name && reading.labels.last().is_some_and(|(_, value)| value == label));
            found.map(|reading| reading.value)
        };
        assert_eq!(value("lookalike_kafka_messages_received", "consumer"), Some(12.0));
        assert_eq!(value("lookalike_kafka_broker_rtt_avg_seconds", "a:1/1"), Some(0.0015));
        assert_eq!(value("lookalike_kafka_broker_up", "b:1/2"), Some(0.0));
        assert_eq!(value("lookalike_kafka_fetch_queue_messages", "0"), Some(3.0));
        assert!(parse_statistics(json, "none").expect("a report").partitions.is_empty());
        assert!(parse_statistics(b"{", "t").is_none());
        assert!(!parse_statistics(br#"{"brokers":{"b":{"state":"TRY_CONNECT"}}}"#, "t").expect("a report").is_any_up);
    }
}
