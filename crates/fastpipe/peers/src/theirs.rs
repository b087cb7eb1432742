//! iceoryx2's publisher and subscriber, in place. Neither can sleep.

use anyhow::{Result, anyhow};
use iceoryx2::port::publisher::Publisher as Port;
use iceoryx2::port::subscriber::Subscriber as OtherPort;
use iceoryx2::prelude::*;

use crate::channel::{Consumer, Producer, Shape, sum};

/// The last message begins with this byte.
const END: u8 = 0xff;

type Service = ipc::Service;

fn service(
    shape: Shape,
    name: &str,
) -> Result<iceoryx2::service::port_factory::publish_subscribe::PortFactory<Service, [u8], ()>> {
    let node = NodeBuilder::new().create::<Service>().map_err(error)?;
    let name = name.try_into().map_err(error)?;
    node.service_builder(&name)
        .publish_subscribe::<[u8]>()
        .enable_safe_overflow(false)
        .history_size(0)
        .max_publishers(1)
        .max_subscribers(1)
        .subscriber_max_buffer_size(shape.messages)
        .subscriber_max_borrowed_samples(1)
        .payload_alignment(Alignment::new(64).ok_or_else(|| anyhow!("alignment"))?)
        .open_or_create()
        .map_err(error)
}

fn error(error: impl std::fmt::Debug) -> anyhow::Error {
    anyhow!("iceoryx2: {error:?}")
}

pub struct Publisher {
    port: Port<Service, [u8], ()>,
    size: usize,
}

impl Publisher {
    pub fn new(shape: Shape, name: &str) -> Result<Self> {
        let port = service(shape, name)?
            .publisher_builder()
            .initial_max_slice_len(shape.size)
            .max_loaned_samples(1)
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()
            .map_err(error)?;
        let size = shape.size;
        Ok(Publisher { port, size })
    }
}

impl Producer for Publisher {
    fn send(&mut self, value: u8) -> Result<()> {
        let mut sample = self.port.loan_slice_uninit(self.size).map_err(error)?;
        let payload = sample.payload_mut();
        // SAFETY: all bytes are written, so that they are initialized.
        let sample = unsafe {
            payload.as_mut_ptr().write_bytes(value, payload.len());
            sample.assume_init()
        };
        sample.send().map_err(error)?;
        Ok(())
    }

    fn end(mut self: Box<Self>) -> Result<()> {
        self.send(END)
    }
}

pub struct Subscriber {
    port: OtherPort<Service, [u8], ()>,
}

impl Subscriber {
    pub fn new(shape: Shape, name: &str) -> Result<Self> {
        let port = service(shape, name)?.subscriber_builder().create().map_err(error)?;
        Ok(Subscriber { port })
    }
}

impl Consumer for Subscriber {
    fn receive(&mut self) -> Result<Option<u64>> {
        loop {
            if let Some(sample) = self.port.receive().map_err(error)? {
                let message = sample.payload();
                return Ok((message[0] != END).then(|| sum(message)));
            }
            std::hint::spin_loop();
        }
    }
}
