import type { IHeaders, KafkaMessage, Message } from 'kafkajs'
import type { AnyEvent } from '../protocol/base-event.ts'
import { fromBinaryCloudEvent, toBinaryCloudEvent } from '../protocol/cloud-events.ts'
import { Corrupt } from '../protocol/errors.ts'
import { asDelivery } from './delivery.ts'
import type { BusEvent, Delivery } from './transport.ts'

/**
 * A CloudEvent in binary mode, keyed by its graph: one graph is one partition, and stays in order. `subject` is the graph, too; `sequence`, whose
 * text order is the order of events, holds position, index and revision. Headers are few because each costs kafkajs as much as the body.
 */
export function messageOf({ position, graph_id, context_id, plan_id, revision, index, event }: Delivery): Message {
  const { headers, body } = toBinaryCloudEvent(event as unknown as AnyEvent, {
    subject: graph_id,
    extensions: {
      sequence: `${position}/${String(index).padStart(6, '0')}/${revision}`,
      ...(context_id !== graph_id && { contextid: context_id }), // the graph of a context has its id
      ...(plan_id !== undefined && { planid: plan_id }),
    },
  })
  return { key: graph_id, value: body, headers }
}

/** Throws Corrupt, naming `where`, for what another program has put there. */
export function deliveryOf({ headers = {}, value }: KafkaMessage, where: string): Delivery {
  const { ce_sequence = '', ce_subject, ce_contextid, ce_planid } = texts(headers)
  const [, position, index, revision] = /^(.*)\/(\d+)\/(\d+)$/.exec(ce_sequence) ?? []
  let event: BusEvent
  try {
    event = fromBinaryCloudEvent({ headers, body: value ?? '' }) as unknown as BusEvent
  } catch (cause) {
    throw new Corrupt(where, 'it holds no event; look for another program that writes there', { cause })
  }
  return asDelivery(
    {
      position,
      graph_id: ce_subject,
      context_id: ce_contextid ?? ce_subject,
      ...(ce_planid !== undefined && { plan_id: ce_planid }),
      revision: Number(revision),
      index: Number(index),
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
