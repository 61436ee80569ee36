import type { IHeaders, KafkaMessage, Message } from 'kafkajs'
import type { AnyEvent } from '../protocol/base-event.ts'
import { fromBinaryCloudEvent, toBinaryCloudEvent } from '../protocol/cloud-events.ts'
import { Corrupt } from '../protocol/errors.ts'
import { asDelivery } from './delivery.ts'
import type { BusEvent, Delivery } from './transport.ts'

/** A CloudEvent in binary mode, keyed by its graph: one graph is one partition, and stays in order. `subject` is the graph, too. */
export function messageOf({ position, graph_id, context_id, plan_id, revision, index, event }: Delivery): Message {
  const { headers, body } = toBinaryCloudEvent(event as unknown as AnyEvent, {
    subject: graph_id,
    extensions: {
      position,
      contextid: context_id,
      ...(plan_id !== undefined && { planid: plan_id }),
      revision: String(revision),
      index: String(index),
    },
  })
  return { key: graph_id, value: body, headers }
}

/** Throws Corrupt, naming `where`, for what another program has put there. */
export function deliveryOf({ headers = {}, value }: KafkaMessage, where: string): Delivery {
  const { ce_position, ce_subject, ce_contextid, ce_planid, ce_revision, ce_index } = texts(headers)
  let event: BusEvent
  try {
    event = fromBinaryCloudEvent({ headers, body: value ?? '' }) as unknown as BusEvent
  } catch (cause) {
    throw new Corrupt(where, 'it holds no event; look for another program that writes there', { cause })
  }
  return asDelivery(
    {
      position: ce_position,
      graph_id: ce_subject,
      context_id: ce_contextid,
      ...(ce_planid !== undefined && { plan_id: ce_planid }),
      revision: Number(ce_revision),
      index: Number(ce_index),
      event,
    },
    where,
  )
}

/** What it takes on the wire, about: each header has its name, its value and two lengths. */
export const sizeOf = ({ key, value, headers = {} }: Message): number =>
  Object.entries(headers).reduce(
    (sum, [name, text]) => sum + name.length + String(text).length + 8,
    Buffer.byteLength(value ?? '') + Buffer.byteLength(key ?? '') + 32,
  )

const texts = (headers: IHeaders): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value?.toString()]))
