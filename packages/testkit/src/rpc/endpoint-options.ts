import type { EndpointOptions } from '@lockstep/config'

/** An endpoint as a test writes it: its address alone, or with what differs from the defaults of the config. */
export type EndpointWish = string | (Partial<EndpointOptions> & Pick<EndpointOptions, 'url'>)

/** An endpoint as the config would resolve it. */
export const endpointOf = (wish: EndpointWish): EndpointOptions => ({
  ws: null,
  requestsPerSecond: null,
  requestsAtOnce: 20,
  ...(typeof wish === 'string' ? { url: wish } : wish),
})

export const endpointOptions = (wishes: readonly EndpointWish[]): EndpointOptions[] => wishes.map(endpointOf)
